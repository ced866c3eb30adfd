"""Objects of which one value is of another shape, too deep, too large or no JSON: each costs itself and nothing else.

The whole product but for its calls: what the API server sends is read, kept, indexed and decided on; then a good pod is
placed, and what would be written for it is text again.
"""

import itertools
import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest

from allocator.api import allocation_to_v1
from allocator.model import Toleration
from scheduler.attempt.claim_objects import Intent, allocated, deallocated, marked
from scheduler.client.api_resources import taint_rules
from scheduler.client.connection import Connection
from scheduler.client.discovery import Served
from scheduler.client.raw_json import dumps
from scheduler.client.watch_states import Applied, Deleted, Entry, Found, Undecoded, Unreadable, input_of, page_of
from scheduler.client.watcher import Reflector
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import Placed
from scheduler.kinds import WatchedClaim
from scheduler.queue import Queue
from scheduler.runtime.core import WatchedState
from scheduler.state.claims import Waiting, full
from scheduler.state.cluster_changes import Event, PodChanged
from tests.builders import a_claim, a_class, a_node, a_request, a_slice, a_user, amounts, kubernetes, on_node, watched
from tests.odd_objects import (
    BROKEN,
    CLAIM,
    CLASS,
    DEPTHS,
    KINDS,
    VALUES,
    Kind,
    Path,
    fields,
    large,
    nested,
    replaced,
)
from tests.unit.scheduler.runtime.updates import update_from

ROOM = amounts(cpu="4", memory="8Gi", pods="10")
GOOD = "node-0"
INTENT = Intent("dra-scheduler", 1, "1", "uid-pod", GOOD, 1)


class World:
    """A good node with a good device, a good claim and its pod, and whatever is odd beside them."""

    def __init__(self) -> None:
        self.watched = WatchedState(
            cast(Connection, None), Served("v1.37.0", "1.37", "v1", taint_rules("v1")), float, float, places_pods=True
        )
        self.cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        self.cluster.set_class(a_class())
        self.cluster.set_node(a_node(GOOD, allocatable=ROOM))
        self.cluster.set_slice(a_slice("gpu-0", name=GOOD, pool=GOOD, reach=on_node(GOOD)))
        # A DeviceTaintRule that selects every device is odd, and in force.
        request = a_request(tolerations=(Toleration("", "Exists", "", ""),))
        self.cluster.set_claim(watched(a_claim(request, name="good")), 1)
        self.pod = a_user("pod", "good")
        self.queue = Queue(0.0, gate=self.cluster.gate, on_move=lambda *_: None)
        self.refused: list[Undecoded] = []
        update_from(self.watched, self.cluster, self._hear, lambda _, refused: self.refused.append(refused))
        self._versions = itertools.count(2000)
        self._names = {str(one.resource.kind): one for one in self.watched}

    def _hear(self, event: Event) -> None:
        if isinstance(event, PodChanged) and event.new is not None and not event.new.node_name:
            self.queue.add(event.new, 0.0)
        else:
            if isinstance(event, PodChanged) and event.old is not None:
                self.queue.remove(event.old.uid)
            self.queue.on_event(event, 0.0)

    def show(self, kind: Kind, text: bytes) -> Found[Any]:
        """What is made of the object, which is there and gone again."""
        reflector = self._names[kind.kind]
        text = text.replace(b'"1000"', b'"%d"' % next(self._versions))
        found = _observed(reflector, kind, text)
        if found.resource_version:
            reflector.store.take(Applied(found))
            self.decide_on_odd_ones()
            self.decide_on_the_good_one()
            reflector.store.take(Deleted(found.key, found.uid, next(self._versions)))
        assert not isinstance(found, Undecoded) or found.defect is None, found
        assert reflector.store.failures == 0
        assert len(reflector.store) == len(reflector.store.undecoded) == 0
        return found

    def listed(self, kind: Kind, text: bytes) -> Found[Any]:
        """What is made of an entry of a list between two good ones."""
        return _listed(self._names[kind.kind], kind, text)

    def decide_on_the_good_one(self) -> None:
        """Its claim is allocated, which is text for the API server."""
        (claim,) = cast(Any, self.cluster.claims_of(self.pod))
        result = decide(self.cluster, self.pod, [claim.claim], full(self.pod, [claim]))
        assert isinstance(result, Placed), result
        self.cluster.reserve(self.pod, result)
        assert dumps([allocation_to_v1(one) for one in result.allocations])
        self.cluster.unreserve(self.pod.uid)

    def decide_on_odd_ones(self) -> None:
        """Whatever comes of them, it comes without an exception; what is written of a claim is text."""
        self.cluster.violations()
        for pod in (a_user("other", "odd-claim"), *(entry.value for entry in self.watched.pods.store.entries.values())):
            self._decide(pod)
        for found in self.watched.claims.store.values():
            raw = marked(found.raw, INTENT)
            assert all(map(dumps, (allocated(raw, {"devices": {}}, "pod", "uid"), deallocated(raw))))

    def _decide(self, pod: Pod) -> None:
        found = self.cluster.claims_of(pod)
        if not isinstance(found, Waiting):
            decide(self.cluster, pod, [one.claim for one in found], full(pod, found))


def _observed(reflector: Reflector[Any], kind: Kind, text: bytes) -> Found[Any]:
    """The object as a line of a watch tells it, or else as a page does."""
    watcher = reflector._watcher
    named = b'{"apiVersion":"%b","kind":"%b",' % (kind.api_version.encode(), kind.kind.encode()) + text[1:]
    line = b'{"type":"MODIFIED","object":' + named + b"}"
    try:
        applied = input_of("GET /x", line, watcher.decode, watcher.held)
    except Unreadable:
        return _listed(reflector, kind, text)
    assert isinstance(applied, Applied), applied
    return applied.object


def _listed(reflector: Reflector[Any], kind: Kind, text: bytes) -> Found[Any]:
    watcher = reflector._watcher
    head = b'{"apiVersion":"%b","kind":"%bList","metadata":{"resourceVersion":"7"},"items":['
    good = dumps(kind.object)
    body = head % (kind.api_version.encode(), kind.kind.encode()) + b",".join((good, text, good)) + b"]}"
    page = page_of("GET /x", body, watcher.decode, watcher.held)
    first, found, last = page.objects
    assert first == last
    assert not isinstance(first, Undecoded)
    return found


KINDS_BY_NAME = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.object["metadata"]["name"])


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    with caplog.at_level(logging.ERROR):
        yield World()
    assert caplog.records == []


@KINDS_BY_NAME
def test_object_itself_can_be_read(world: World, kind: Kind) -> None:
    found = world.show(kind, dumps(kind.object))
    assert not isinstance(found, Undecoded), found


@KINDS_BY_NAME
def test_field_of_any_shape_costs_its_object_alone(world: World, kind: Kind) -> None:
    for path in fields(kind.object):
        for value in VALUES.values():
            world.show(kind, replaced(kind.object, path, value))


@KINDS_BY_NAME
def test_field_that_is_no_json_costs_its_object_alone(world: World, kind: Kind) -> None:
    for path in fields(kind.object):
        for value in BROKEN.values():
            world.show(kind, replaced(kind.object, path, value))


@KINDS_BY_NAME
def test_field_that_is_nested_deep_costs_its_object_alone(world: World, kind: Kind) -> None:
    for path in roots(kind):
        for value in map(nested, DEPTHS):
            world.show(kind, replaced(kind.object, path, value))


@KINDS_BY_NAME
def test_field_of_a_large_size_costs_its_object_alone(world: World, kind: Kind) -> None:
    for path in roots(kind):
        for value in large():
            world.show(kind, replaced(kind.object, path, value))


@pytest.mark.parametrize("kind", [CLAIM, CLASS], ids=lambda kind: kind.kind)
def test_json_of_users_and_drivers_may_be_anything_and_goes_back_as_it_came(world: World, kind: Kind) -> None:
    texts = [*map(nested, DEPTHS), '{"a": "\\ud800", "b": 1e400, "c": 1.50}']
    for path in kind.free:
        for text in texts:
            found = world.show(kind, replaced(kind.object, path, text))
            assert isinstance(found, Entry), found
            if isinstance(found.value, WatchedClaim):
                assert text.encode() in found.value.data
                assert text.encode() in dumps(marked(found.value.raw, INTENT))


@KINDS_BY_NAME
def test_entry_of_a_list_that_is_no_object_costs_itself_alone(world: World, kind: Kind) -> None:
    for value in (*VALUES.values(), *BROKEN.values(), nested(9000)):
        assert isinstance(world.listed(kind, value.encode(errors="surrogateescape")), Undecoded)


def roots(kind: Kind) -> Iterator[Path]:
    """Where values are put that are too many for every field."""
    yield from (("metadata", "labels"), ("metadata", "annotations", "a"), ("metadata", "managedFields", 0, "fieldsV1"))
    yield from ((part,) for part in ("spec", "status") if part in kind.object)
    yield from kind.free
