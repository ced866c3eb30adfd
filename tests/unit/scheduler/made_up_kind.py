"""A program in which there is one kind more: run in a process of its own, since all rooms read the table at the start.

Prints what becomes of an object of that kind in a watch, in a manifest and in a dump.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from itertools import count
from pathlib import Path
from typing import Any, cast

import orjson

from allocator.api.findings import FieldError
from scheduler.client.api_resources import Resource
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.watch_states import Applied, Deleted, Key, input_of
from scheduler.core_v1.object_fields import ObjectFields, ObjectMetaFields, typed
from scheduler.decision.cluster import Cluster
from scheduler.state.cluster_changes import Changed
from tests.builders import kubernetes

ROW = """\
    ObjectKind(
        resource=MadeUp.WINDOWS,
        model=MadeUp.model,
        decode=MadeUp.decode_window,
        put=lambda cluster, one: MadeUp.open_windows.update({one.name: one.hours}),
        drop=lambda cluster, one: MadeUp.open_windows.pop(one.name),
        changed=MadeUp.changed,
    ),
"""
"""All that the program has to be told, beside the decoder and what reads it."""

END = ')\n"""All of them'
"""What comes after the last row of the table."""


@dataclass(frozen=True, slots=True)
class Window:
    """The made-up model."""

    name: str
    hours: int


class WindowChanged(Changed[Window]):
    """The made-up event."""


class _SpecFields(ObjectFields):
    hours: int


class _WindowFields(ObjectFields):
    metadata: ObjectMetaFields
    spec: _SpecFields


class MadeUp:
    """What the row names: the resource, the decoder, and the part of the cluster that reads the objects."""

    model = Window
    changed = WindowChanged
    WINDOWS = Resource("maintenance.example", "v1", "windows", "Window", is_namespaced=False)
    open_windows: dict[str, int] = {}  # noqa: RUF012 - of the one cluster of this process

    @staticmethod
    def decode_window(
        raw: Mapping[str, object], *, validate: bool = True
    ) -> tuple[Window | None, tuple[FieldError, ...]]:
        """The made-up decoder."""
        assert isinstance(validate, bool)
        fields, errors = typed(_WindowFields, raw)
        return (Window(fields.metadata.name, fields.spec.hours), ()) if fields else (None, errors)


def add_row() -> None:
    """Let the program have the row in its table."""
    spec = find_spec("scheduler.kinds")
    assert spec
    assert spec.origin
    source = Path(spec.origin).read_text()
    assert source.count(END) == 1
    module = module_from_spec(spec)
    vars(module)["MadeUp"] = MadeUp
    sys.modules[spec.name] = module
    import_module("scheduler").kinds = module  # type: ignore[attr-defined]
    exec(compile(source.replace(END, ROW + END), spec.origin, "exec"), vars(module))  # noqa: S102 - our own text


def a_window(**more: object) -> dict[str, Any]:
    """An object of the kind."""
    metadata = {"name": "night", "uid": "u", "resourceVersion": "5", "labels": {"team": "a"}}
    return {
        "apiVersion": "maintenance.example/v1",
        "kind": "Window",
        "metadata": metadata,
        "spec": {"hours": 3},
        **more,
    }


def watched() -> object:
    """What the cluster holds and which events are heard while the object comes, changes, is unreadable and goes."""
    state = import_module("scheduler.runtime.core").WatchedState(
        cast(Connection, None), Served("v1.37.0", "1.37", "v1", None), float, float, places_pods=True
    )
    steps: list[object] = []
    heard: list[str] = []
    update_from = import_module("tests.unit.scheduler.runtime.updates").update_from
    update_from(state, Cluster(kubernetes(), is_ours=None), lambda event: heard.append(type(event).__name__))
    (reflector,) = (one for one in state if one.resource.kind == "Window")
    versions = count(5)

    def show(spec: object) -> None:
        raw = a_window(spec=spec)
        raw["metadata"]["resourceVersion"] = str(next(versions))
        line = orjson.dumps({"type": "MODIFIED", "object": raw})
        event = input_of("GET /x", line, reflector._watcher.decode, reflector._watcher.held)
        assert isinstance(event, Applied)
        reflector.store.take(event)
        steps.append([dict(MadeUp.open_windows), len(heard)])

    for spec in ({"hours": 3}, {"hours": 3}, {"hours": 4}, {"hours": "x"}, {"hours": 4}):
        show(spec)
    reflector.store.take(Deleted(Key("", "night"), "u", next(versions)))
    return [*steps, [dict(MadeUp.open_windows), len(heard)], sorted(set(heard))]


def from_manifest() -> object:
    """What a manifest with the object gives, and one with an error."""
    documents, inventory = import_module("scheduler.input.documents"), import_module("scheduler.input.inventory")
    cluster_of = import_module("scheduler.offline.snapshot_cluster").cluster_of
    claims = import_module("scheduler.offline.input_claims").Claims
    place = documents.Place("windows.yaml")
    found = inventory.take_inventory([documents.RawObject(place, a_window())])
    wrong = inventory.take_inventory([documents.RawObject(place, a_window(spec={"hours": "x"}))])
    cluster_of(found, claims(found), [], kubernetes())
    return {
        "inventory": [[one.name, one.hours] for one in found.of(Window)],
        "cluster": dict(MadeUp.open_windows),
        "skipped": dict(found.skipped),
        "errors": [str(one) for one in wrong.errors],
    }


def dumped() -> dict[str, object]:
    """The object in a dump, and in a redacted one."""
    kept = import_module("scheduler.offline.shareable_dump").shareable(a_window())
    redacted = import_module("scheduler.offline.redaction").Redaction([kept]).object(kept)
    return {"dump": kept, "redacted": redacted}


if __name__ == "__main__":
    add_row()
    sys.stdout.buffer.write(orjson.dumps({"watch": watched(), "manifest": from_manifest(), **dumped()}))
