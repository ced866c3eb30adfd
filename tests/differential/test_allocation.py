"""Our allocator, made strict, against the reference's: generated cases, in numbers.

`PEER_N` and `PEER_SEED` choose how many cases and which; a third of them is about the basic aspects, a third about all,
and a third about all with objects that the API server would refuse. `PEER_KUBERNETES` chooses the release.
What differs is shown as small as it gets. The comparison itself is that of `dra verify allocation --strict`.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain
from random import Random

import orjson
import pytest

from scheduler.cli.verify_allocation import replay
from tests import extent
from tests.differential.peer import Json, Peer, built_or_skipped
from tests.differential.shrunk import shrunk
from tests.generators.cases import ESSENTIAL, cases, spelled_anew
from tests.generators.claims import LIST_ATTRIBUTES
from tests.generators.draw import ALL, BASIC
from tests.generators.unchecked import unchecked_cases

CASES = extent.chosen("PEER_N", 5000, 20000)
SEED = extent.chosen("PEER_SEED", 1, extent.day())
KUBERNETES = os.environ.get("PEER_KUBERNETES", "1.37")

# What a case is not about, by release: what it does not have, and its bugs that docs/differences.md lists.
LEFT_OUT = {
    "1.36": {"CompatibilityGroups", "DerivedAttributes", "FractionalCapacityRange", "OptionalNodeOperations"}
    | {"DistinctAttribute"},
    "1.37": set[str](),
    "1.38": set[str](),
}


@pytest.fixture(scope="module")
def allocate_peer() -> Iterator[Peer]:
    with Peer(built_or_skipped(KUBERNETES), "allocate") as peer:
        yield peer


def difference(case: Json, answer: Json) -> str:
    """What differs between our answer and the peer's, empty where nothing does."""
    expected = {key: answer[key] for key in ("results", "errors", "errorKinds")}
    (replayed,) = replay(iter([orjson.dumps({**case, "expected": expected})]), KUBERNETES)
    return replayed.difference


def manner(found: str) -> str:
    """The kinds of the two answers and the words of an error, without names."""
    return re.sub(r"\S*[\d/{}\[\]]\S*", "", found)[:120]


def some(rng: Random, count: int, aspects: Collection[str]) -> list[Json]:
    """Cases about those of the aspects that the release can be compared in."""
    many = cases(rng, count, [aspect for aspect in aspects if aspect not in LEFT_OUT[KUBERNETES]])
    if KUBERNETES == "1.38":  # before, a capacity by its full name was another one: docs/differences.md
        return [spelled_anew(rng, case) for case in many]
    return list(map(for_1_36, many)) if KUBERNETES == "1.36" else many


def for_1_36(case: Json) -> Json:
    """The case without gates of 1.37, and without what 1.36 does worse: pools of one name, amounts below zero, lists.

    Lists that have to match have one value: 1.36 forgets what earlier devices have in common when it gives one back.
    No amount is so large that it overflows where it is rounded up to a step.
    """
    text = orjson.dumps(case).replace(b'"-1"', b'"1"').replace(b'"9223372036854775807"', b'"4Ei"')
    case = orjson.loads(text)
    has = {feature: is_on for feature, is_on in case["features"].items() if feature not in LEFT_OUT["1.36"]}
    for slice_ in case["slices"]:
        slice_["spec"]["pool"]["name"] += f"-{slice_['spec']['driver']}"
    for device in chain.from_iterable(case["allocatedState"].values()):
        device["pool"] += f"-{device['driver']}"
    constraints = chain.from_iterable(claim["spec"]["devices"].get("constraints", ()) for claim in case["claims"])
    matched = {constraint.get("matchAttribute") for constraint in constraints}
    if not matched.isdisjoint(LIST_ATTRIBUTES):
        for device in chain.from_iterable(slice_["spec"].get("devices", ()) for slice_ in case["slices"]):
            for attribute in device.get("attributes", {}).values():
                attribute |= {kind: attribute[kind][:1] for kind in attribute.keys() & {"strings", "ints"}}
    return {**case, "features": has}


@pytest.mark.parametrize(
    "generate",
    [
        pytest.param(partial(some, aspects=BASIC), id="basic"),
        pytest.param(partial(some, aspects=ALL), id="all"),
        pytest.param(
            unchecked_cases,
            id="unchecked",
            marks=pytest.mark.skipif(KUBERNETES == "1.36", reason="some of the objects are of 1.37"),
        ),
    ],
)
def test_generated_cases_are_allocated_as_by_the_reference(
    allocate_peer: Peer, generate: Callable[[Random, int], list[Json]]
) -> None:
    many = generate(Random(SEED), CASES // 3)  # noqa: S311
    outcomes: Counter[str] = Counter()
    differing: list[Json] = []
    for case, answer in zip(many, allocate_peer.ask_all(many), strict=True):
        outcomes.update(answer["errorKinds"].values())
        outcomes.update("allocated" if results else "none" for results in answer["results"].values())
        if difference(case, answer):
            differing.append(case)
    assert outcomes["allocated"] > 0.3 * (outcomes["allocated"] + outcomes["none"])
    assert set(outcomes) - {"panic"} == {"allocated", "none", "node", "fatal"}
    shown = shrunk(allocate_peer, differing, difference, manner, ESSENTIAL)
    assert not differing, f"{len(differing)} of {len(many)} cases differ, among them\n{shown}"
