"""Structured log on standard error: one line an event, as JSON or as text."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, Literal

from edge.errors import InputError

FORMATS = ("text", "json")
Format = Literal["text", "json"]

_ATTRIBUTE = "kit_fields"


def fields(**values: Any) -> dict[str, Mapping[str, Any]]:
    """Values that an event carries beside its sentence: `log.info("...", extra=fields(event="started"))`."""
    return {_ATTRIBUTE: values}


def start_log(layout: str = "text", level: int = logging.INFO) -> None:
    """Send the log of this package to standard error.

    Args:
        layout: "json": one object a line with "time" (UTC, to the millisecond), "level", "message", and the
            event's fields; "text": the same for people.
        level: of `logging`.

    Raises:
        InputError: an unknown layout.
    """
    if layout not in FORMATS:
        raise InputError(f"log format {layout!r} is not known; choose {' or '.join(FORMATS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if layout == "json" else _Text())
    logger = logging.getLogger("edge")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
    # A full disk or a closed pipe behind standard error must not end the run.
    logging.raiseExceptions = False


def _stamp(created: float) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
    return f"{moment}.{int(created * 1000) % 1000:03d}Z"


def _sentence(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        text += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
    return " ".join(text.split())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        values = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "message": _sentence(record),
            **getattr(record, _ATTRIBUTE, {}),
        }
        return json.dumps(values, ensure_ascii=False, default=str)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extra = {name: value for name, value in getattr(record, _ATTRIBUTE, {}).items() if name != "event"}
        behind = f" ({', '.join(f'{name} {value}' for name, value in extra.items())})" if extra else ""
        return f"{_stamp(record.created)} {record.levelname.lower()}: {_sentence(record)}{behind}"
