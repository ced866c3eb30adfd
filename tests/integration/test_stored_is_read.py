"""Whatever the API server stores is read: one place of a valid object changed, and what the server makes of it decoded.

What it stores and we refuse costs the watch an object, and every command that reads the cluster its input.
"""

import http.client
import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest

from scheduler.client.watch_states import Undecodable
from scheduler.input.documents import FindingReason, Place, RawObject
from scheduler.input.inventory import take_inventory
from scheduler.kinds import BY_NAME
from tests.controlplane.contents import ensure_namespace
from tests.controlplane.profiles import ALL
from tests.controlplane.rest import ApiError, Json, Kind, RestClient
from tests.extent import part
from tests.integration.conftest import Planes
from tests.integration.stored_objects import OBJECTS
from tests.integration.validation_cases import RICH
from tests.odd_objects import Path, fields, replaced

TEXTS = ("", "a", "A", "a b", "-a", "a/b", "a/b/c", "a.b", "é", "\x1b[2J\n\u202e", "10.0.0.1", "%s")
LONG = ("x" * 64, "x" * 400)
NUMBERS = (-1, 0, 1, 2, 101, 65_536, 2**31 - 1, 2**31, 2**63 - 1)
AMOUNTS = ("-1", "0", "1n", "0.5", "1e3", "1e100", "9E", "1Ki", "99999999999999999999Ei", 7)
WORDS = ("Exists", "DoesNotExist", "NotIn", "Gt", "Lt", "NoSchedule", "NoExecute", "Never", "Always", "Honor", "Ignore")
MORE_WORDS = ("ScheduleAnyway", "Filesystem", "Block", "Immediate", "ReadWriteOncePod", "UDP", "SCTP", "Equal")
SHAPES: tuple[Any, ...] = (True, False, None, [], {}, [""], [None], {"": ""}, {"a b": "c"}, {"A/B": 1}, {"a/b/c": ""})
VALUES = [json.dumps(one) for one in (*TEXTS, *LONG, *NUMBERS, *AMOUNTS, *WORDS, *MORE_WORDS, *SHAPES)]

OBJECTS_BY_NAME: Mapping[str, Json] = {**{one["kind"]: one for one in OBJECTS}, **RICH}
WHOLE = {("metadata",), ("spec",), ("status",), *(("metadata", name) for name in ("name", "namespace", "uid"))}
IN_GATE = 250
"""Changes of each object, other ones each day."""


@pytest.fixture(scope="module")
def server(planes: Planes) -> RestClient:
    client = planes.of(ALL).client()
    ensure_namespace(client, "ml")
    return client


def at(raw: Json, path: Path) -> object:
    found: Any = raw
    for step in path:
        found = found[step]
    return found


def changes(raw: Json) -> list[tuple[Path, str]]:
    """Places in the object, and what to put there."""
    places = [path for path in fields(raw) if path not in WHOLE and path[0] not in ("apiVersion", "kind")]
    found = [(path, value) for path in places for value in VALUES]
    lists = [(path, entries) for path in places if isinstance(entries := at(raw, path), list)]
    found += [(path, json.dumps([*entries, *entries])) for path, entries in lists]
    Random(1).shuffle(found)  # noqa: S311 - cases of a test
    return found


def stored(server: RestClient, base: Json, raw: Json, path: Path, value: str) -> Json | None:
    """The object with the value, as the server stores it; None where it refuses it. base: one that is stored."""
    changed = json.loads(replaced(raw, path, value))
    status = changed.pop("status", None)
    try:
        if path[0] == "status":
            return server.replace_status({**base, "status": status}, is_dry=True)
        return server.create(changed, is_dry=True)
    except ApiError:
        return None
    except http.client.RemoteDisconnected:  # as `of_server` of validation.py has it
        return None


def refusals(found: Json) -> Iterator[str]:
    """Why the watch or the commands do not take an object, or say that the API server does not."""
    try:
        kind = BY_NAME.get(found["kind"])  # workloads have none: files alone hold them
        if kind is not None and kind.is_watched:
            kind.watch_decoder(found)
    except Undecodable as error:
        yield str(error)
    inventory = take_inventory([RawObject(Place("input.yaml", 1), found)])
    yield from map(str, inventory.errors)
    yield from (str(one) for one in inventory.warnings if one.reason is FindingReason.REFUSED)


@pytest.mark.parametrize("name", OBJECTS_BY_NAME)
def test_what_the_server_stores_is_read(server: RestClient, name: str) -> None:
    raw = {**OBJECTS_BY_NAME[name], "metadata": {**OBJECTS_BY_NAME[name]["metadata"]}}
    raw["metadata"].pop("uid", None)
    kind = Kind(raw["apiVersion"], raw["kind"])
    base = server.create({**raw, "metadata": {**raw["metadata"], "name": f"base-{name.lower().replace(' ', '-')}"}})
    taken = 0
    for path, value in part(changes(raw), IN_GATE):
        found = stored(server, base, raw, path, value)
        if found is not None:
            taken += 1
            assert [*refusals({**found, "apiVersion": kind.api_version, "kind": kind.kind})] == [], (path, value)
    assert taken > 5
