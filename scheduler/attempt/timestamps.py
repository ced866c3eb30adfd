"""Times in the API server's format: RFC 3339 in UTC, in whole seconds or microseconds.

Source: k8s.io/apimachinery meta/v1 Time and MicroTime.
"""

from datetime import UTC, datetime


def in_seconds(time: datetime) -> str:
    """As metav1.Time."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_microseconds(time: datetime) -> str:
    """As metav1.MicroTime."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
