"""Durations and shares as people type them."""

from __future__ import annotations

import math
import re

from edge.errors import InputError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_seconds(text: str, option: str) -> float:
    """A duration such as "500ms", "10s", "10m", "1h" or "90" (seconds) as seconds, 0 to a week.

    Raises:
        InputError: it is none; `option` is named.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    unit = _UNITS.get(match[2] or "s") if match else None
    if match is None or unit is None or float(match[1]) * unit > 7 * 86400:
        raise InputError(f"{option} {text!r} is no duration; write for example 10s, 10m or 1h")
    return float(match[1]) * unit


def parse_share(text: str, option: str) -> float:
    """A share such as "5%" or "0.05", 0 or more.

    Raises:
        InputError: it is none; `option` is named.
    """
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{option} {text!r} is no share; write for example 5% or 0.05")
    return value
