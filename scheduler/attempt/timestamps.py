"""Times in the API server's format: RFC 3339 in UTC, in whole seconds or microseconds.

Source: k8s.io/apimachinery meta/v1 Time and MicroTime.
"""

from datetime import UTC, datetime


def in_seconds(time: datetime) -> str:
    """As metav1.Time."""
    return f"{_in_utc(time).isoformat(timespec='seconds')}Z"


def in_microseconds(time: datetime) -> str:
    """As metav1.MicroTime."""
    return f"{_in_utc(time).isoformat(timespec='microseconds')}Z"


def _in_utc(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(tzinfo=None)
