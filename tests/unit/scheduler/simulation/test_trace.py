"""Orders of arrivals: what is read, and what is told of those that cannot be used."""

from pathlib import Path

import pytest

from scheduler.simulation.trace import DrawnOrder, InvalidLine, orders

ORDER = '{"workload": "w", "seed": 7, "pods": [1, 0, 0], "nodes": [1, 0]}\n'


def the_orders(folder: Path, order: str = ORDER) -> dict[int, DrawnOrder]:
    """Of two pods and two nodes."""
    file = folder / "w.jsonl"
    file.write_text(order)
    return orders(file, 2, 2)


def test_an_order_has_pods_and_nodes_of_each_seed(tmp_path: Path) -> None:
    assert the_orders(tmp_path) == {7: DrawnOrder(7, (1, 0, 0), (1, 0))}


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        (ORDER.replace("[1, 0, 0]", "[1, 2]"), "w.jsonl, line 1: pods[1]: 2 is not a row, of 2 from 0"),
        (ORDER.replace("[1, 0]}", '["x"]}'), 'w.jsonl, line 1: nodes[0]: "x" is not a row, of 2'),
        ("{", "w.jsonl, line 1: is not JSON: "),
        (f'{{"a\\\\": {"[" * 990}{"]" * 990}}}', "w.jsonl, line 1: more than 200 levels of nesting"),
    ],
)
def test_an_order_that_cannot_be_used_is_told_with_file_line_and_value(
    tmp_path: Path, order: str, problem: str
) -> None:
    with pytest.raises(InvalidLine) as told:
        the_orders(tmp_path, order)
    assert problem in str(told.value)
