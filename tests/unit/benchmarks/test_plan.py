"""The benchmark of plans: what it compares, what counts as an answer, and its figures beside their limits."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks.plan.cases import PODS, RemovalCase, write
from benchmarks.plan.instances import Instance, Kind, Wish, compared, holds, optimum
from benchmarks.plan.run import Timed, quality, table, with_plans
from tests.unit.scheduler.cli.command import dra

TWO_GROUPS = Instance(there=(), groups=(Kind("a", 2, 8, 3), Kind("a", 4, 8, 5)), wishes=(Wish(2, 1), Wish(2, 1)))


def test_the_optimum_is_the_cheapest_way_to_place_all() -> None:
    assert optimum(TWO_GROUPS, TWO_GROUPS.wishes) == 5
    assert optimum(TWO_GROUPS, TWO_GROUPS.wishes[:1]) == 3
    assert optimum(TWO_GROUPS, [Wish(8, 1)]) is None
    assert not holds([Kind("a", 4, 8)], [Wish(2, 1), Wish(2, 8)])
    assert not holds([Kind("a", 4, 8)], [Wish(1, 1, "b")])


def test_figures_stand_beside_their_limits() -> None:
    one = compared(TWO_GROUPS)
    assert one.is_equal
    assert one.is_near
    assert one.has_valid_bound
    figures = list(quality([Timed(one, 0.001)]))
    assert all(figure.is_kept for figure in figures)
    assert "| plans that cost the least | 1 of 1 (100.0%) | 95 % |" in table(figures)


def test_each_missed_limit_is_told() -> None:
    one = compared(TWO_GROUPS)
    dear = replace(one, plan=replace(one.plan, cost=one.plan.cost + 6, bound=None))
    missed = [figure.case for figure in quality([Timed(dear, 0.001)]) if not figure.is_kept]
    assert missed == [
        "plans that cost the least",
        "plans that cost more than one node more",
        "bounds that are missing or above the optimum",
    ]
    assert any(line.endswith("95 %: MISSED |") for line in table(list(quality([Timed(dear, 0.001)]))))


def test_instances_have_a_plan() -> None:
    assert all(one.compared.optimum is not None for one in islice(with_plans(0), 5))


def test_the_answer_of_the_program_is_right_and_another_is_not(tmp_path: Path) -> None:
    case = RemovalCase(10)
    write(case, tmp_path / "cluster.json")
    run = dra("plan", tmp_path / "cluster.json", "--remove", "-o", "json")
    assert run.code == 0, run.err
    found = json.loads(run.out)
    assert case.is_right(found)
    assert len(found["removed"]) == 5
    assert sum(len(one["moves"]) for one in found["removed"]) == 5 * len(PODS)
    assert not case.is_right({**found, "removed": found["removed"][1:]})
    assert not case.is_right({**found, "isMaximal": False})
