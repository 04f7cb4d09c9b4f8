"""Checks of JSON values: given a value and its field's name, they return the value or say what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from edge.errors import InputError

Check = Callable[[Any, str], Any]
"""Takes a JSON value and the name of its field; returns the value, or raises InputError that names the field."""


def wrong(name: str, wanted: str, value: Any) -> InputError:
    """The error for a field whose value is not what is wanted; shows at most 60 characters of it, as ASCII."""
    shown = ascii(value)
    return InputError(f"{name} must be {wanted}, not {shown if len(shown) <= 60 else shown[:57] + '...'}")


def whole(minimum: int = 0, maximum: int = 2**63 - 1) -> Check:
    """A whole number in a range, both ends included."""

    def check(value: Any, name: str) -> int:
        # A bool is an int in Python, and 224.0 is none.
        if type(value) is not int or not minimum <= value <= maximum:
            upper = "" if maximum == 2**63 - 1 else f" to {maximum}"
            raise wrong(name, f"a whole number from {minimum}{upper}", value)
        return value

    return check


def real(minimum: float = 0.0, maximum: float = math.inf) -> Check:
    """A finite number in a range, both ends included; whole or not."""

    def check(value: Any, name: str) -> float:
        try:
            number = float(value) if type(value) in (int, float) else math.nan
        except OverflowError:
            number = math.nan
        if not minimum <= number <= maximum or math.isinf(number):
            lower = "" if math.isinf(minimum) else f" from {minimum:g}"
            upper = "" if math.isinf(maximum) else f" to {maximum:g}"
            raise wrong(name, f"a finite number{lower}{upper}", value)
        # As it is: what is read and written again keeps its bytes.
        found: float = value
        return found

    return check


def text(value: Any, name: str) -> str:
    """Text that a terminal can show; it may be empty."""
    if not isinstance(value, str) or not is_printable(value):
        raise wrong(name, "text without control characters", value)
    return value


def one_of(known: Sequence[str]) -> Check:
    """One of these texts."""

    def check(value: Any, name: str) -> str:
        if not isinstance(value, str) or value not in known:
            raise wrong(name, f"one of {', '.join(known)}", value)
        return value

    return check


def items(each: Check) -> Check:
    """A list, returned as a tuple."""

    def check(value: Any, name: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise wrong(name, "a list", value)
        return tuple(each(item, f"{name}[{number}]") for number, item in enumerate(value))

    return check


def table(each: Check) -> Check:
    """An object with any names in it."""

    def check(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong(name, "an object", value)
        for key in value:
            if not is_printable(key):
                raise wrong(f"a name in {name}", "text without control characters", key)
        return {key: each(item, f"{name}.{key}") for key, item in value.items()}

    return check


def record(
    fields: Mapping[str, Check], make: Callable[..., Any] = dict, optional: Collection[str] = ()
) -> Check:
    """An object with these fields and no others, as `make` makes it of them.

    Args:
        fields: the check of each field.
        make: called with the fields by name.
        optional: fields that may be absent; `make` is then called without them.
    """

    def check(value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            raise wrong(name, "an object", value)
        within = f"{name}." if name else ""
        for key in value:
            if key not in fields:
                raise InputError(f"{within}{ascii(key)[1:-1][:60]} is not known")
        for key in fields:
            if key not in value and key not in optional:
                raise InputError(f"{name or 'it'} lacks {key!r}")
        return make(**{key: fields[key](item, f"{within}{key}") for key, item in value.items()})

    return check


def maybe(check: Check) -> Check:
    """What `check` takes, or null."""
    return lambda value, name: None if value is None else check(value, name)


def anything(value: Any, name: str) -> Any:
    """Any JSON value, as long as each text in it can be shown and each number is one."""
    if isinstance(value, dict):
        return table(anything)(value, name)
    if isinstance(value, list):
        return [anything(item, f"{name}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, str):
        return text(value, name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        real(-math.inf)(value, name)
    return value


def is_printable(text: str) -> bool:
    """Whether text can be shown on a terminal as it is: no control characters, line breaks or surrogates.

    The two joiners that some scripts spell words with (U+200C, U+200D) are allowed.
    """
    return all(letter.isprintable() or letter in "\u200c\u200d" for letter in text)
