from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.output.placement_report import PlacementReport
from scheduler.output.report import text_of
from scheduler.output.table import PLAIN, ColumnTable, TextLayout
from scheduler.terminal_text import printable, width_of
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    an_allocated_claim,
)
from tests.unit.scheduler.scenario import run


def text(*objects: Json, is_wide: bool = False, layout: TextLayout = PLAIN) -> str:
    placed = run(*objects)
    return text_of(PlacementReport(placed.results, placed.placement.claims), layout, is_wide=is_wide)


def lines_of(*objects: Json, is_wide: bool = False, width: int | None = None) -> list[str]:
    return text(*objects, is_wide=is_wide, layout=TextLayout(width)).splitlines()


def cells_of(*objects: Json, is_wide: bool = False) -> list[list[str]]:
    return [line.split() for line in lines_of(*objects, is_wide=is_wide)]


def test_a_table_has_a_line_for_each_device() -> None:
    claim = a_claim("c", a_request("a", count=2), a_request("b"))
    objects = [a_node(), a_class(), a_slice(count=2), a_slice(driver="nic.example", count=1), claim]
    assert cells_of(*objects, a_pod("p", claim="c")) == [
        ["POD", "CLAIM", "NODE", "REQUEST", "DEVICE"],
        ["default/p", "default/c", "node-1", "a", f"{DRIVER}/node-1/gpu-0"],
        ["default/p", "default/c", "node-1", "a", f"{DRIVER}/node-1/gpu-1"],
        ["default/p", "default/c", "node-1", "b", "nic.example/node-1/gpu-0"],
    ]


def test_columns_begin_where_their_headers_do() -> None:
    objects = [*a_cluster("a-node-of-a-long-name", "n"), a_claim("c"), a_pod("a-pod-of-a-long-name", claim="c")]
    header, *rows = lines_of(*objects, a_pod("p", template="one"))
    starts = [header.index(word) for word in header.split()]
    for row in rows:
        assert [row[start - 1] for start in starts[1:]] == [" "] * 4
        assert all(row[start] != " " for start in starts)


def test_no_line_ends_in_blanks() -> None:
    assert all(line == line.rstrip() for line in lines_of(*a_cluster(), a_pod("p", template="one"), is_wide=True))


def test_a_pod_that_is_not_placed_has_one_line_with_the_reason() -> None:
    objects = [*a_cluster(count=1), a_claim("c", a_request(count=2)), a_pod("p", claim="c")]
    header, row = lines_of(*objects)
    assert header.split()[0] == "POD"
    assert row.split("   ") == [
        "default/p",
        "default/c",
        "0/1 nodes: no node has 2 devices for request gpu, the most is 1, on node-1 (of 1 device)",
    ]


def test_a_pod_without_resolved_claims_has_a_dash_for_them() -> None:
    _, row = lines_of(*a_cluster(), a_pod("p", claim="none"))
    assert row.split()[:2] == ["default/p", "-"]


def test_a_claim_that_no_pod_uses_has_a_dash_for_the_pod() -> None:
    _, row = cells_of(*a_cluster(), a_claim("c"))
    assert row == ["-", "default/c", "node-1", "gpu", f"{DRIVER}/node-1/gpu-0"]


def test_a_claim_without_requests_has_dashes_for_its_devices() -> None:
    claim = a_claim("c")
    claim["spec"] = {"devices": {}}
    assert cells_of(*a_cluster(), claim)[1] == ["-", "default/c", "node-1", "-", "-"]


def test_the_wide_table_adds_class_and_number_of_configurations() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    claim = a_claim("c", a_request("a"), a_request("b", device_class="plain"))
    claim["spec"]["devices"]["config"] = [{"requests": ["a"], **opaque}, opaque]
    objects = [a_node(), a_class(config=[opaque]), a_class("plain"), a_slice(), claim]
    assert [row[-2:] for row in cells_of(*objects, is_wide=True)] == [["CLASS", "CONFIG"], ["gpu", "3"], ["plain", "1"]]


def test_the_wide_table_reports_the_reason_of_every_node() -> None:
    objects = [a_node("n1", unschedulable=True), a_node("n2"), a_class(), a_template(), a_slice(node="n1")]
    rows = lines_of(*objects, a_pod("p", template="one"), is_wide=True)[2:]
    assert [row.strip() for row in rows] == [
        "n1: node is unschedulable",
        "n2: request gpu needs 1 device, 0 are left (0 devices)",
    ]


def test_an_allocated_claim_of_a_placed_pod_is_in_the_table() -> None:
    objects = [*a_cluster(), an_allocated_claim("c", "gpu-1"), a_pod("p", claim="c")]
    assert cells_of(*objects)[1] == ["default/p", "default/c", "node-1", "gpu", f"{DRIVER}/node-1/gpu-1"]


def test_nothing_to_place_gives_the_header_alone() -> None:
    assert lines_of(*a_cluster()) == ["POD   CLAIM   NODE   REQUEST   DEVICE"]


def test_reasons_are_red_where_there_are_colours() -> None:
    objects = [*a_cluster(), a_pod("p", claim="none")]
    assert "\x1b[31mclaim default/none does not exist" in text(*objects, layout=TextLayout(has_colour=True))
    assert "\x1b" not in text(*objects)


def test_lines_with_a_reason_are_in_line_with_each_other() -> None:
    names = ("p", "a-pod-of-a-very-long-name")
    rows = lines_of(*a_cluster(), *(a_pod(name, claim="none") for name in names))[1:]
    assert len({row.index("claim default/none") for row in rows}) == 1


def test_every_pod_has_a_line() -> None:
    pod = a_pod("p", template="one", status={"resourceClaimStatuses": [{"name": "dev"}]})
    assert cells_of(*a_cluster(), pod)[1:] == [["default/p", "-", "node-1", "-", "-"]]


def test_a_reason_wraps_in_a_column_of_its_own() -> None:
    objects = [*a_cluster(count=1), a_claim("c", a_request(count=2)), a_pod("p", claim="c")]
    lines = lines_of(*objects, width=80)
    start = lines[1].index("0/1 nodes")
    assert len(lines) > 2
    assert all(len(line) <= 80 for line in lines)
    assert all(line[:start].isspace() for line in lines[2:])
    whole = " ".join(line[start:] for line in lines[1:])
    assert whole == "0/1 nodes: no node has 2 devices for request gpu, the most is 1, on node-1 (of 1 device)"


def test_a_reason_without_room_beside_names_stands_below_them() -> None:
    name = "a-pod-of-a-long-name-0"
    objects = [*a_cluster(count=1), a_claim("c", a_request(count=2)), a_pod(name, claim="c")]
    _, names, *reason = lines_of(*objects, width=80)
    assert names.split() == [f"default/{name}", "default/c"]
    assert [line[:4] for line in reason] == ["    "] * len(reason)
    assert " ".join(line.strip() for line in reason).startswith("0/1 nodes: no node has 2 devices for request gpu")


OWNER = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}]}


def of_job(name: str, **fields: Any) -> Json:
    pod = a_pod(name, **fields)
    return {**pod, "metadata": {**pod["metadata"], **OWNER}}


def test_pods_of_one_workload_with_one_reason_share_a_row() -> None:
    wanted = a_template("many", a_request(count=9))
    pods = [of_job(f"j-{number}", template="many") for number in range(5)]
    objects = [*a_cluster(count=1), wanted, *pods, a_pod("p", template="many"), of_job("other", claim="none")]
    rows = [row.split("   ") for row in lines_of(*objects)[1:]]
    assert [row[0].strip() for row in rows] == ["default/j-0 and 4 more", "default/other", "default/p"]
    assert [row[1].strip().endswith("and 4 more") for row in rows] == [True, False, False]
    assert len([row for row in lines_of(*objects, is_wide=True) if row.startswith("default/")]) == 7


CELLS = st.lists(st.text("ab-/ ,.0漢é\x1b", max_size=90), min_size=1, max_size=6)


@given(st.integers(1, 6), st.lists(CELLS, max_size=6), st.integers(80, 200), st.integers(0, 6))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(
    columns: int, rows: list[list[str]], width: int, right: int
) -> None:
    header = [f"TITLE {number}" for number in range(columns)]
    shown = [row[:columns] for row in rows]
    numbers = frozenset(header[:right])
    lines = list(ColumnTable(header, shown, numbers).lines(TextLayout(width)))
    assert [line for line in lines if width_of(line) > width] == []
    letters = Counter("".join("".join(map(printable, row)) for row in (header, *shown)).replace(" ", ""))
    assert Counter("".join(lines).replace(" ", "")) == letters


@given(st.text("ab- ,.\n漢", max_size=400), st.integers(80, 120))
def test_sentences_wrap_at_the_terminal_and_keep_their_words(sentences: str, width: int) -> None:
    lines = list(TextLayout(width).lines(sentences))
    assert [line for line in lines if width_of(line) > width] == []
    assert "".join(lines).replace(" ", "") == sentences.replace(" ", "").replace("\n", "")


def test_what_fits_is_laid_out_as_in_a_file() -> None:
    table = ColumnTable(["A", "B"], [["a", "b" * 40], ["alone"]])
    assert "\n".join(table.lines(TextLayout(80))) == str(table)


def test_words_of_states_and_severities_have_one_colour_each() -> None:
    table = ColumnTable(["STATE", "NAME"], [["free", "free"], ["pending,deleted", "x"]])
    assert list(table.lines(TextLayout(80, has_colour=True)))[1:] == [
        "\x1b[32mfree           \x1b[0m   free",
        "\x1b[33mpending,deleted\x1b[0m   x",
    ]
