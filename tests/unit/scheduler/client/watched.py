"""Found objects for tests of watches: the value is a text."""

from scheduler.client.watch_states import Applied, Deleted, Entry, Key, Undecoded


def an_entry(name: str = "a", resource_version: int = 1, value: str = "v", *, uid: str = "") -> Entry[str]:
    return Entry(Key("ns", name), uid or f"uid-of-{name}", resource_version, value)


def a_refused(name: str = "a", resource_version: int = 1, error: str = "spec: is wrong") -> Undecoded:
    return Undecoded(Key("ns", name), f"uid-of-{name}", resource_version, error)


def applied(name: str = "a", resource_version: int = 1, value: str = "v", *, uid: str = "") -> Applied[str]:
    return Applied(an_entry(name, resource_version, value, uid=uid))


def deleted(name: str = "a", resource_version: int = 1, *, uid: str = "") -> Deleted:
    return Deleted(Key("ns", name), uid or f"uid-of-{name}", resource_version)
