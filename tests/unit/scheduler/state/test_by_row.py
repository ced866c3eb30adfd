"""Numbers by row of the nodes' columns, against the same numbers worked out anew."""

from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugins.node_resources_balanced_allocation import balanced_allocation
from scheduler.plugins.scoring_strategies import least_allocated
from scheduler.state.masks import Flags, Numbers, Rows
from scheduler.state.node_infos import FEW_CHANGED, MOST_KEPT, ByRow, NodeInfos
from scheduler.state.pods import pod_requests
from tests.builders import a_container, a_node, a_pod, amounts

GPU = "example.com/gpu"


def test_only_rows_that_have_changed_are_worked_out_again() -> None:
    by_row, asked = ByRow(12), list[int | list[int]]()

    def work_out(rows: Rows) -> Rows:
        asked.append(rows if isinstance(rows, int) else rows.tolist())
        return rows * 10

    assert by_row.of("key", 1, work_out).tolist() == [10 * row for row in range(12)]
    by_row.of("key", 1, work_out)
    for row in (6, 2, 6):
        by_row.touch(row)
    by_row.of("key", 1, work_out)
    by_row.of("key", 1, work_out)
    assert asked == [[*range(12)], 2, 6], "a few are worked out without arrays"
    for row in range(FEW_CHANGED + 1):
        by_row.touch(row)
    by_row.of("key", 1, work_out)
    assert asked[3:] == [[*range(FEW_CHANGED + 1)]]


def test_the_mask_of_flags_follows_the_rows_that_have_changed() -> None:
    by_row, low = ByRow(16), 12

    def work_out(rows: Rows) -> Flags | bool:
        return rows >= low

    assert by_row.mask("key", 1, work_out) == 0b1111 << 12
    by_row.touch(14)
    assert by_row.mask("key", 1, work_out) == 0b1111 << 12
    low = 15
    by_row.touch(13)
    assert by_row.mask("key", 1, work_out) == 0b1101 << 12
    assert by_row.of("key", 1, work_out).tolist() == [False] * 12 + [True, False, True, True]
    for row in range(4, 16):
        by_row.touch(row)
    assert by_row.mask("key", 1, work_out) == 0b1000 << 12


def test_so_many_are_kept_and_the_least_recently_used_is_forgotten() -> None:
    by_row, worked_out = ByRow(1), list[int]()

    def ask(key: int) -> None:
        def work_out(rows: Numbers) -> Numbers:
            worked_out.append(key)
            return rows

        by_row.of(key, 1, work_out)

    for key in (*range(MOST_KEPT), 0, MOST_KEPT, 0, 1):
        ask(key)
    assert worked_out == [*range(MOST_KEPT + 1), 1]


amount = st.integers(1, 8).map(str)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 80), amount, st.booleans()),
        st.tuples(st.just("no node"), st.integers(0, 80), amount, st.booleans()),
        st.tuples(st.just("pod"), st.integers(0, 80), amount, st.booleans()),
        st.tuples(st.just("no pod"), st.integers(0, 80), amount, st.booleans()),
    ),
    max_size=12,
)


@given(steps)
def test_scores_that_are_kept_are_those_of_the_columns_as_they_are(steps: list[tuple[str, int, str, bool]]) -> None:
    infos, strategy = NodeInfos({}), least_allocated({"cpu": 1, GPU: 2})
    asking = [pod_requests(a_pod(a_container(cpu="1"))), pod_requests(a_pod(a_container(cpu="2", **{GPU: "1"})))]
    on_node: dict[int, str] = {}
    for what, number, cpu, has_gpu in steps:
        match what:
            case "node":
                infos.set_node(
                    number, a_node(f"n{number}", allocatable=amounts(cpu=cpu, **({GPU: "4"} if has_gpu else {})))
                )
            case "no node":
                infos.remove_node(number)
            case "pod" if number not in on_node:
                on_node[number] = cpu
                infos.add_pod(number, a_pod(a_container(cpu=cpu), name=f"p{number}"))
            case "no pod" if number in on_node:
                infos.remove_pod(number, a_pod(a_container(cpu=on_node.pop(number)), name=f"p{number}"))
        for who, requests in enumerate(asking):
            rows = np.arange(infos.size)
            worth, balance = partial(strategy.scores, requests, infos), partial(balanced_allocation, requests, infos)
            assert infos.by_row.of(("worth", who), 1, worth).tolist() == worth(rows).tolist()
            assert infos.by_row.of(("balance", who), 1, balance).tolist() == balance(rows).tolist()
            for of_rows in (worth, balance):
                assert [of_rows(row) for row in range(infos.size)] == of_rows(rows).tolist()
            for some in (rows[::3], rows[:2]):
                assert infos.by_row.at(some, ("worth", who), 1, worth).tolist() == worth(some).tolist()
