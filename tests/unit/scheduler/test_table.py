import click

from scheduler.output.table import table
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


def lines_of(*objects: Json, is_wide: bool = False) -> list[str]:
    return click.unstyle(table(run(*objects).results, is_wide=is_wide)).splitlines()


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


def test_reasons_are_red() -> None:
    text = table(run(*a_cluster(), a_pod("p", claim="none")).results, is_wide=False)
    assert "\x1b[31mclaim default/none does not exist" in text


def test_lines_with_a_reason_are_in_line_with_each_other() -> None:
    names = ("p", "a-pod-of-a-very-long-name")
    rows = lines_of(*a_cluster(), *(a_pod(name, claim="none") for name in names))[1:]
    assert len({row.index("claim default/none") for row in rows}) == 1


def test_every_pod_has_a_line() -> None:
    pod = a_pod("p", template="one", status={"resourceClaimStatuses": [{"name": "dev"}]})
    assert cells_of(*a_cluster(), pod)[1:] == [["default/p", "-", "node-1", "-", "-"]]


def test_a_reason_wraps_in_a_column_of_its_own() -> None:
    objects = [*a_cluster(count=1), a_claim("c", a_request(count=2)), a_pod("p", claim="c")]
    lines = click.unstyle(table(run(*objects).results, is_wide=False, width=70)).splitlines()
    start = lines[1].index("0/1 nodes")
    assert len(lines) > 2
    assert all(len(line) <= 70 for line in lines)
    assert all(line[:start].isspace() for line in lines[2:])
    whole = " ".join(line[start:] for line in lines[1:])
    assert whole == "0/1 nodes: no node has 2 devices for request gpu, the most is 1, on node-1 (of 1 device)"


def test_a_reason_has_room_on_the_narrowest_terminal() -> None:
    objects = [*a_cluster(count=1), a_claim("c", a_request(count=2)), a_pod("p", claim="c")]
    lines = click.unstyle(table(run(*objects).results, is_wide=False, width=10)).splitlines()
    assert max(len(line) for line in lines[1:]) > 40
