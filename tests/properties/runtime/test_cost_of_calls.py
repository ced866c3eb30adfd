"""Whatever a caller sends, at whichever door: what a call costs is bounded by its size, in memory and in work.

Cost is counted: bytes that are in memory at once, and functions that Python calls. Each field that a door reads holds
as many values of each kind as a body has room for, right ones and wrong ones.
"""

import asyncio
import json
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from types import FrameType, NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import is_typeddict

from allocator.api.resource_claim import ClaimFields
from scheduler.core_v1.object_fields import ObjectFields
from scheduler.core_v1.pod import _PodFields
from scheduler.extender.wire import ExtenderArgs, ExtenderBindingArgs, ExtenderPreemptionArgs
from scheduler.guard import reviewer
from scheduler.runtime.section import Fields
from scheduler.runtime.server import LARGEST_BODY, Malformed
from scheduler.terminal_text import LONGEST_MESSAGE
from tests.fuzz.extender_bodies import bodies
from tests.fuzz.guard_bodies import a_reviewer
from tests.unit.scheduler.extender.test_verbs import World

Json = dict[str, Any]  # Any: objects of the API
Path = tuple[str, ...]
Answer = Callable[[bytes], bytes | Awaitable[bytes]]

ENTRY, VALUE = "[]", "{}"
"""Steps of a path: into a list, and into a map."""

MEMORY, CALLS = 1 << 20, 1 << 15
"""What a call may cost however small it is."""

MEMORY_PER_BYTE, CALLS_PER_BYTE = 300, 6.0
"""And for each byte of its body: `{}` among the containers of a pod is the dearest."""

MOST_MEMORY = 192 << 20
"""However large it is."""


class Cost(NamedTuple):
    memory: int
    calls: int
    answer: int


class Door(NamedTuple):
    """One that answers calls. body: of a good call. places: paths to the fields that it reads."""

    answer: Answer
    body: Json
    places: tuple[Path, ...]


def places(type_: Any, path: Path = ()) -> Iterator[Path]:
    """The paths to a field and to those in it, by the type that it is read by."""
    yield path
    origin, inner = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        for one in inner:
            yield from () if one is NoneType else (found for found in places(one, path) if found != path)
    elif origin is list:
        yield from places(inner[0], (*path, ENTRY))
    elif origin is dict:
        yield from places(inner[1], (*path, VALUE))
    elif is_typeddict(type_) or (isinstance(type_, type) and issubclass(type_, ObjectFields | Fields)):
        for name, hint in get_type_hints(type_).items():
            if get_origin(hint) is not ClassVar and name not in {"model_config", "reader"}:
                yield from places(hint, (*path, name))


def with_value(body: Any, path: Path) -> Any:
    """The body with a mark at the path, and what is missing on the way to it."""
    if not path:
        return "@"
    step, *rest = path
    if step == ENTRY:
        return [with_value(body[0] if isinstance(body, list) and body else None, tuple(rest))]
    known = body if isinstance(body, dict) else {}
    name = "key" if step == VALUE else step
    return {**known, name: with_value(known.get(name), tuple(rest))}


def many(entry: str) -> Callable[[int], str]:
    return lambda size: f"[{','.join([entry] * (size // (len(entry) + 1)))}]"


def of_names(value: str) -> Callable[[int], str]:
    def filled(size: int) -> str:
        return "{" + ",".join(f'"k{number:06}":{value}' for number in range(size // (len(value) + 11))) + "}"

    return filled


FILLINGS: Mapping[str, Callable[[int], str]] = {
    "numbers": many("0"),
    "nulls": many("null"),
    "texts": many('"a"'),
    "objects": many("{}"),
    "objects with a field": many('{"a":0}'),
    "objects with a name": many('{"name":"a"}'),
    "lists": many("[]"),
    "map of numbers": of_names("0"),
    "map of texts": of_names('"a"'),
    "map of objects": of_names("{}"),
    "a name again and again": lambda size: "{" + '"a":0,' * (size // 6) + '"a":0}',
    "long text": lambda size: '"%s"' % ("a" * size),
    "text of dots": lambda size: '"%s"' % ("." * size),
    "no text": lambda size: '"%s"' % ("\\ud800" * (size // 6)),
    "digits": lambda size: "9" * size,
    "fraction": lambda size: f"0.{'9' * size}",
    "deep lists": lambda size: f"{'[' * (size // 2)}{']' * (size // 2)}",
    "deep objects": lambda size: '{"a":' * (size // 6) + "0" + "}" * (size // 6),
    "unclosed": lambda size: "[" * size,
    "one that is broken at the end": lambda size: "[" + "{}," * (size // 3) + '"\\ud800"]',
}


@cache
def doors() -> Mapping[str, Door]:
    verbs = World().verbs
    args = bodies()
    pod = [("Pod", *path) for path in places(_PodFields)]
    return {
        "guard": Door(
            a_reviewer().answer,
            _question(),
            tuple(
                [("request", part, *path) for part in ("object", "oldObject") for path in places(ClaimFields)]
                + list(places(reviewer.AdmissionReview))
            ),
        ),
        "filter": Door(verbs.filter, args["filter"][0], (*places(ExtenderArgs), *pod)),
        "prioritize": Door(verbs.prioritize, args["prioritize"][0], tuple(places(ExtenderArgs))),
        "preempt": Door(verbs.preempt, args["preempt"][0], tuple(places(ExtenderPreemptionArgs))),
        "bind": Door(verbs.bind, args["bind"][0], tuple(places(ExtenderBindingArgs))),
    }


def _question() -> Json:
    metadata = {"namespace": "ns", "name": "one", "uid": "u", "resourceVersion": "7"}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "pool", "device": "a"}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    new = {**claim, "status": {"allocation": {"devices": {"results": [result]}}}}
    request = {"uid": "q", "operation": "UPDATE", "subResource": "status", "dryRun": True}
    asked = {**request, "object": new, "oldObject": claim}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def cost_of(answer: Answer, body: bytes) -> Cost:
    """What the answer to a body costs."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def answered() -> bytes:
        try:
            found = answer(body)
            return found if isinstance(found, bytes) else await found
        except Malformed as problem:
            return str(problem).encode()

    with asyncio.Runner() as runner:
        runner.run(asyncio.sleep(0))
        tracemalloc.start()
        sys.setprofile(count)
        try:
            said = runner.run(answered())
        finally:
            sys.setprofile(None)
            memory = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    return Cost(memory, calls, len(said))


def body_with(door: Door, path: Path, filling: str, size: int) -> bytes:
    return json.dumps(with_value(door.body, path)).replace('"@"', FILLINGS[filling](size)).encode()


def in_limits(door: str, path: Path, filling: str, size: int) -> bool:
    found, body = doors()[door], body_with(doors()[door], path, filling, size)
    cost = cost_of(found.answer, body)
    is_small = cost.answer <= 4 * len(body) + 2 * LONGEST_MESSAGE
    memory = min(MEMORY + MEMORY_PER_BYTE * len(body), MOST_MEMORY)
    return is_small and cost.memory <= memory and cost.calls <= CALLS + CALLS_PER_BYTE * len(body)


ANYWHERE = st.sampled_from([(name, path) for name, door in doors().items() for path in door.places])
RESULTS = ("request", "object", "status", "allocation", "devices", "results")


@example(place=("guard", RESULTS), filling="numbers", size=1 << 18)
@example(place=("guard", RESULTS), filling="objects", size=1 << 18)
@example(place=("guard", (*RESULTS, ENTRY)), filling="map of numbers", size=1 << 18)
@example(place=("guard", RESULTS[:2]), filling="one that is broken at the end", size=1 << 17)
@example(place=("filter", ("NodeNames",)), filling="numbers", size=1 << 18)
@example(place=("filter", ("Pod", "spec", "tolerations")), filling="numbers", size=1 << 17)
@example(place=("filter", ("Pod", "spec", "containers")), filling="objects", size=1 << 17)
@example(place=("preempt", ("NodeNameToVictims",)), filling="map of numbers", size=1 << 18)
@given(place=ANYWHERE, filling=st.sampled_from(sorted(FILLINGS)), size=st.sampled_from([1 << 10, 1 << 14]))
def test_cost_is_bounded_by_the_size(place: tuple[str, Path], filling: str, size: int) -> None:
    assert in_limits(*place, filling, size)


@pytest.mark.parametrize("filling", ["numbers", "objects", "lists", "map of texts", "long text", "deep lists"])
@pytest.mark.parametrize(
    ("door", "path"),
    [
        ("guard", RESULTS),
        ("guard", ("request", "oldObject", "metadata", "finalizers")),
        ("filter", ("NodeNames",)),
        ("filter", ("Pod", "spec", "containers")),
        ("preempt", ("NodeNameToVictims",)),
        ("bind", ("PodName",)),
    ],
)
def test_memory_is_bounded_for_the_largest_bodies(door: str, path: Path, filling: str) -> None:
    body = body_with(doors()[door], path, filling, LARGEST_BODY - (1 << 15))
    assert len(body) <= LARGEST_BODY
    cost = cost_of(doors()[door].answer, body)
    assert cost.memory - len(body) <= MOST_MEMORY
    assert cost.answer <= 2 * len(body)
