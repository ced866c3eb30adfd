"""Our CEL against the reference's: generated expressions on generated devices, in numbers.

`PEER_N` and `PEER_SEED` choose how many pairs and which; `PEER_KUBERNETES` the release whose environment is compared.
What differs is shown as small as it gets.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests import extent
from tests.differential.comparison import Comparison, Pair
from tests.differential.peer import Json, Peer, built_or_skipped
from tests.generators.devices import devices
from tests.generators.expressions import Node, derived_attribute, selector, some

PAIRS = extent.chosen("PEER_N", 20000, 100000)
SEED = extent.chosen("PEER_SEED", 1, extent.day())
KUBERNETES = os.environ.get("PEER_KUBERNETES", "1.37")
DERIVED_PAIRS = PAIRS // 10
DEVICES = 200
DEVICES_PER_EXPRESSION = 4


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with Peer(built_or_skipped(KUBERNETES), "cel") as running:
        yield running


def generated(rng: Random, count: int, expression: Callable[[Random], Node]) -> Iterator[Pair]:
    """Pairs of an expression and a device, those of one expression one after the other."""
    many = devices(rng, DEVICES)
    if KUBERNETES == "1.36":  # in which a device with a list answers nothing
        many[DEVICES // 5 :] = map(without_lists, many[DEVICES // 5 :])
    for node in some(expression, rng, -(-count // DEVICES_PER_EXPRESSION)):
        for device in rng.sample(many, DEVICES_PER_EXPRESSION):
            yield node, device


def without_lists(device: Json) -> Json:
    attributes = {
        name: {k: v for k, v in a.items() if k[-1] != "s"} for name, a in device.get("attributes", {}).items()
    }
    return {**device, "attributes": {name: a for name, a in attributes.items() if a}}


def assert_worth_asking(seen: Counter[str]) -> None:
    """Enough of the expressions compile and give a result, and every way to fail occurs."""
    assert seen["result"] > seen.total() * 0.15
    assert seen.total() * 0.1 < seen["compile"] < seen.total() * 0.5
    ways = {"result", "compile", "runtime", "output"}
    # Since 1.38 a value that cannot be read fails where it is taken, not with its device.
    assert set(seen) - {"panic"} == (ways if KUBERNETES == "1.38" else {*ways, "device"})


def test_generated_selectors_answer_and_cost_as_by_the_reference(peer: Peer) -> None:
    comparison = Comparison(peer, KUBERNETES)
    differing = comparison.differing(generated(Random(SEED), PAIRS, selector))  # noqa: S311
    assert comparison.seen.total() >= PAIRS
    assert_worth_asking(comparison.seen)
    assert not differing, comparison.report(differing)


@pytest.mark.skipif(KUBERNETES == "1.36", reason="derived attributes came with 1.37")
def test_generated_derived_attributes_are_those_of_the_reference(peer: Peer) -> None:
    comparison = Comparison(peer, KUBERNETES, derived=True)
    differing = comparison.differing(generated(Random(SEED), DERIVED_PAIRS, derived_attribute))  # noqa: S311
    assert comparison.seen.total() >= DERIVED_PAIRS
    assert_worth_asking(comparison.seen)
    assert not differing, comparison.report(differing)
