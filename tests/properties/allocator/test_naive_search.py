"""The allocator's answers on small random clusters: those of the naive search, and valid by themselves."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import pytest

from allocator.allocate import allocate
from allocator.cluster.snapshot import Snapshot
from allocator.model import Allocation, Node, Slice
from allocator.outcome import Allocated, AllocationError, InvalidClaim, InvalidPool, Refused
from tests.properties.allocator.checker import complaints
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.instances import ABOUT, about
from tests.properties.allocator.naive import answer
from tests.properties.allocator.naive_results import SHARE_ID

T = TypeVar("T")
Answer = tuple[Allocation, ...] | type[AllocationError] | None

EACH = 50
SOME = 8
"""Instances about each aspect."""


def ours(instance: Instance, node: Node, snapshot: Snapshot | None = None) -> Answer:
    """The allocations, None where there are none, or whose fault it is that nothing can be decided."""
    try:
        outcome = allocate(snapshot or instance.snapshot(), node, instance.claims, share_id=lambda _: SHARE_ID)
    except (InvalidClaim, InvalidPool) as error:
        return fault(error)
    assert isinstance(outcome, Allocated | Refused)
    return outcome.allocations if isinstance(outcome, Allocated) else None


def naive(instance: Instance, node: Node, *, failures_show: bool = True) -> Answer:
    try:
        return answer(instance, node, failures_show=failures_show)
    except (InvalidClaim, InvalidPool) as error:
        return fault(error)


def fault(error: AllocationError) -> type[AllocationError]:
    return InvalidPool if isinstance(error, InvalidPool) else InvalidClaim


@pytest.mark.parametrize("aspect", ABOUT)
def test_strict_answer_is_that_of_the_naive_search(aspect: str) -> None:
    def check(instance: Instance) -> None:
        strict = instance.strictly()
        snapshot = strict.snapshot()
        for node in strict.nodes:
            assert ours(strict, node, snapshot) == naive(strict, node)

    about(aspect).hold_for("strict", EACH, check)


@pytest.mark.parametrize("aspect", ABOUT)
def test_answer_is_valid_and_that_of_the_naive_search_but_for_failures_that_nobody_needs(aspect: str) -> None:
    def check(instance: Instance) -> None:
        snapshot = instance.snapshot()
        for node in instance.nodes:
            answered = ours(instance, node, snapshot)
            if isinstance(answered, tuple):
                assert complaints(instance, node, answered) == []
            if answered != naive(instance, node, failures_show=False):
                assert answered is naive(instance, node) is InvalidClaim

    about(aspect).hold_for("default", EACH, check)


def for_each_aspect(check: Callable[[Instance], None]) -> None:
    for aspect in ABOUT:
        about(aspect).hold_for("some", SOME, check)


def test_order_of_slices_classes_holders_and_keys_does_not_matter() -> None:
    def check(instance: Instance) -> None:
        shuffled = replace(
            instance,
            slices=tuple(keys_reversed(slice_) for slice_ in sorted(instance.slices, key=repr)),
            classes=instance.classes[::-1],
            held=instance.held[::-1],
            nodes=tuple(replace(n, labels=turned(n.labels)) for n in instance.nodes),
        )
        for node, same_node in zip(instance.nodes, shuffled.nodes, strict=True):
            assert ours(shuffled, same_node) == ours(instance, node)

    for_each_aspect(check)


def keys_reversed(slice_: Slice) -> Slice:
    return replace(slice_, devices=tuple(replace(d, attributes=turned(d.attributes)) for d in slice_.devices))


def turned(mapping: Mapping[str, T]) -> dict[str, T]:
    return dict(list(mapping.items())[::-1])


def test_inputs_are_not_changed() -> None:
    def check(instance: Instance) -> None:
        before = repr(instance)
        for node in instance.nodes:
            ours(instance, node)
        assert repr(instance) == before

    for_each_aspect(check)


def test_snapshot_answers_the_same_however_often_and_for_whomever_it_is_asked() -> None:
    def check(instance: Instance) -> None:
        shared = instance.snapshot()
        first = [ours(instance, node, shared) for node in instance.nodes]
        again = [ours(instance, node, shared) for node in reversed(instance.nodes)]
        assert first == again[::-1] == [ours(instance, node) for node in instance.nodes]

    for_each_aspect(check)


def test_devices_allocated_later_are_in_use_as_those_allocated_before() -> None:
    def check(instance: Instance) -> None:
        grown = replace(instance, held=instance.held[:1]).snapshot().with_allocated(instance.held[1:])
        for node in instance.nodes:
            assert ours(instance, node, grown) == ours(instance, node)

    for_each_aspect(check)


def test_what_is_allocated_next_is_valid_beside_what_was_allocated_before() -> None:
    def check(instance: Instance) -> None:
        for node in instance.nodes:
            first = ours(instance, node)
            if not isinstance(first, tuple):
                continue
            holders = tuple(replace(c, allocation=a) for c, a in zip(instance.claims, first, strict=True))
            then = ours(instance, node, instance.snapshot().with_allocated(holders))
            if isinstance(then, tuple):
                assert complaints(replace(instance, held=(*instance.held, *holders)), node, then) == []

    for_each_aspect(check)
