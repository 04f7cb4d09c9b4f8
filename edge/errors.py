"""The one exception for input that cannot be used."""

from __future__ import annotations


class InputError(Exception):
    """Bad input, said in one sentence: what is wrong, where, and what to do about it.

    The command line prints the message on one line of standard error and exits with status 2.
    """
