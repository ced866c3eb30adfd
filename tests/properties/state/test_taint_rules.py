"""DeviceTaintRules are found by what they select: devices have the taints that each rule says, and no rule costs more
where there are many others."""

import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest

from allocator.api import DeviceTaintSelector, TaintRule
from allocator.model import Device, Slice, Taint
from scheduler.decision.cluster import Cluster
from scheduler.state.taints import tainted
from tests.builders import a_slice, kubernetes, on_node

DRIVERS, POOLS, DEVICES = ("a.example", "b.example"), ("p", "q", "r"), ("d0", "d1", "d2")


def is_selected(rule: TaintRule, device: Device) -> bool:
    wanted = rule.selector
    return wanted is not None and all(
        [
            wanted.driver in (None, device.driver),
            wanted.pool in (None, device.pool),
            wanted.device in (None, device.name),
        ]
    )


def taints_of(slice_: Slice, rules: list[TaintRule]) -> list[list[str]]:
    return [[rule.taint.key for rule in rules if is_selected(rule, device)] for device in slice_.devices]


def a_rule(draw: Random, name: str) -> TaintRule:
    parts = [draw.choice([None, *values]) for values in (DRIVERS, POOLS, DEVICES)]
    selector = None if draw.random() < 0.1 else DeviceTaintSelector(*parts)
    return TaintRule(name, Taint(f"{name}-{draw.randrange(3)}", effect="NoSchedule"), selector)


def published(driver: str, pool: str, *, number: int = 1) -> Slice:
    return a_slice(
        *DEVICES, name=f"{driver}-{pool}", driver=driver, pool=pool, generation=number, reach=on_node("node-0")
    )


@pytest.mark.parametrize("seed", range(40))
def test_devices_have_the_taints_of_all_rules_that_select_them_whatever_comes_and_goes(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - cases, not secrets
    cluster = Cluster(kubernetes("1.36", DRADeviceTaintRules=True, DRADeviceTaints=True), is_ours=lambda _: True)
    slices: dict[str, Slice] = {}
    rules: dict[str, TaintRule] = {}
    for number in range(60):
        before = keys(cluster)
        match draw.randrange(4):
            case 0 | 1:
                rule = a_rule(draw, f"rule-{draw.randrange(8)}")
                rules[rule.name] = rule
                assert cluster.set_taint_rule(rule) == (keys(cluster) != before)
            case 2:
                rules.pop(name := f"rule-{draw.randrange(8)}", None)
                assert cluster.remove_taint_rule(name) == (keys(cluster) != before)
            case _:
                slice_ = published(draw.choice(DRIVERS), draw.choice(POOLS), number=number)
                if slices.pop(slice_.name, None) is not None and draw.random() < 0.3:
                    cluster.remove_slice(slice_.name)
                else:
                    slices[slice_.name] = slice_
                    cluster.set_slice(slice_)
        in_order = [rules[name] for name in sorted(rules)]
        assert keys(cluster) == {name: taints_of(slice_, in_order) for name, slice_ in slices.items()}
        alone = tainted(list(slices.values()), in_order)
        assert {one.name: [[t.key for t in device.taints] for device in one.devices] for one in alone} == keys(cluster)


def keys(cluster: Cluster) -> dict[str, list[list[str]]]:
    given = [one for pool in cluster.fleet.slices.by_pool.values() for one in pool]
    return {one.name: [[taint.key for taint in device.taints] for device in one.devices] for one in given}


def calls_of(work: Callable[[], object]) -> int:
    """How many calls the work makes."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_neither_a_rule_nor_a_slice_costs_more_where_there_are_many_other_rules() -> None:
    def costs(others: int) -> tuple[int, int]:
        cluster = Cluster(kubernetes("1.36", DRADeviceTaintRules=True, DRADeviceTaints=True), is_ours=lambda _: True)
        cluster.set_slice(published("a.example", "p"))
        for number in range(others):
            selector = DeviceTaintSelector("a.example", "p", f"broken-{number}")
            cluster.set_taint_rule(TaintRule(f"other-{number}", Taint("k", effect="NoSchedule"), selector))
        rule = TaintRule("rule", Taint("k", effect="NoSchedule"), DeviceTaintSelector("a.example", "p", "d1"))
        of_rule = calls_of(lambda: cluster.set_taint_rule(rule))
        return of_rule, calls_of(lambda: cluster.set_slice(published("a.example", "p", number=2)))

    assert costs(1_000) == costs(10)
