"""The time of day, for records and events. Durations and deadlines are trio's."""

from __future__ import annotations

from datetime import UTC, datetime


def wall_clock() -> float:
    """Return seconds since the epoch."""
    return datetime.now(UTC).timestamp()


def timestamp() -> str:
    """Return the time as ISO 8601, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
