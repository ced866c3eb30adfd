"""Every revision of pods and claims in the order in which they happened, out of two watches.

etcd counts one version for all kinds. Each watch is in order by itself, so an event's turn has come as soon as every
watch has shown something as new: another event, or a bookmark.
"""

import heapq
import re
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import orjson

from tests.controlplane.rest import Json

DEPTH = 40
"""What is nested deeper in an event is not looked at."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


class Revision(NamedTuple):
    """An object at one version. seen_s: when it came, of the monotonic clock; is_gone: its last one."""

    version: int
    seen_s: float
    is_gone: bool
    object: Json


class RevisionOrder:
    """Revisions by version. sources: the names of the watches."""

    def __init__(self, *sources: str) -> None:
        self._shown = dict.fromkeys(sources, 0)
        self._waiting: list[tuple[int, int, Revision]] = []
        self._number = count()

    def put(self, source: str, event: Json, seen_s: float) -> None:
        """Take an event of the watch."""
        version = int(event["object"]["metadata"]["resourceVersion"])
        self._shown[source] = max(self._shown[source], version)
        if event["type"] != "BOOKMARK":
            revision = Revision(version, seen_s, event["type"] == "DELETED", event["object"])
            heapq.heappush(self._waiting, (version, next(self._number), revision))

    def come(self) -> Iterator[Revision]:
        """Those whose turn has come."""
        until = min(self._shown.values())
        while self._waiting and self._waiting[0][0] <= until:
            yield heapq.heappop(self._waiting)[2]


def event_of(line: bytes) -> Json:
    """A line of a watch; where it nests too deep for the library, what is deeper than `DEPTH` is null."""
    try:
        event: Json = orjson.loads(line)
    except orjson.JSONDecodeError:
        event = orjson.loads(_flattened(line))
    return event


def _flattened(line: bytes) -> bytes:
    """The same JSON with null for each object and list at a depth beyond `DEPTH`."""
    parts: list[bytes] = []
    depth = taken = 0
    for token in _TOKEN.finditer(line):
        if token[0] in b"{[":
            depth += 1
            if depth == DEPTH + 1:
                parts += (line[taken : token.start()], b"null")
        elif token[0] in b"}]":
            depth -= 1
            if depth == DEPTH:
                taken = token.end()
    return b"".join((*parts, line[taken:]))
