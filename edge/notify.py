"""Readiness and watchdog messages to systemd, by the protocol of sd_notify(3): one datagram, no library.

The service manager names a socket in `NOTIFY_SOCKET`; every message is a few `KEY=value` lines sent to it.
Without the variable (a run in a terminal, another service manager) all functions do nothing and say so by
returning False, so callers need no special case. A message that cannot be delivered never stops the program:
losing the manager is no reason to lose the camera.
"""

from __future__ import annotations

import os
import socket
import time


def ready(text: str = "") -> bool:
    """Tell systemd that the service is up (`READY=1`), with a line for `systemctl status`."""
    return _send("READY=1", *_status(text))


def status(text: str) -> bool:
    """Set the line that `systemctl status` shows."""
    return _send(*_status(text))


def stopping(text: str = "") -> bool:
    """Tell systemd that the service is shutting down (`STOPPING=1`)."""
    return _send("STOPPING=1", *_status(text))


def reloading() -> bool:
    """Tell systemd that the service is reading its configuration or model again; follow it by `ready`."""
    microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    return _send("RELOADING=1", f"MONOTONIC_USEC={microseconds}")


def watchdog() -> bool:
    """Tell systemd that the service is alive (`WATCHDOG=1`).

    Send it from the loop whose standstill should restart the service, never from a thread of its own: a
    thread would go on answering for a loop that hangs.
    """
    return _send("WATCHDOG=1")


def extend(seconds: float) -> bool:
    """Ask for more time for the start or the end that is under way (`EXTEND_TIMEOUT_USEC`), counted from now."""
    return _send(f"EXTEND_TIMEOUT_USEC={max(0, round(seconds * 1e6))}")


def watchdog_interval() -> float | None:
    """Seconds between two `watchdog` messages: half of what the unit's `WatchdogSec` allows.

    Returns:
        None where no watchdog is set, where it is meant for another process, or where the setting is no
        positive number.
    """
    owner = os.environ.get("WATCHDOG_PID")
    if owner is not None and owner != str(os.getpid()):
        return None
    try:
        microseconds = int(os.environ["WATCHDOG_USEC"])
    except (KeyError, ValueError):
        return None
    return microseconds / 2e6 if microseconds > 0 else None


def _status(text: str) -> list[str]:
    # A line break would start another assignment.
    line = " ".join(text.split())
    return [f"STATUS={line}"] if line else []


def _send(*assignments: str) -> bool:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not assignments or not address:
        return False
    if address.startswith("@"):  # an abstract socket: its name begins with a zero byte
        target: bytes | str = b"\0" + os.fsencode(address[1:])
    elif address.startswith("/"):
        target = address
    else:  # sd_notify(3) also knows vsock, which only virtual machines use
        return False
    message = "\n".join(assignments).encode(errors="replace")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            # The manager's queue may be full; a blocked send would stop the very loop the watchdog guards.
            channel.settimeout(1.0)
            channel.connect(target)
            return channel.send(message) == len(message)
    except OSError:
        return False
