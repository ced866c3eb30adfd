from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from scheduler.output.table import ColumnTable
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_slice,
    an_allocated_claim,
    an_object,
    text_of,
)
from tests.unit.scheduler.output.pages import answer_of, tables_of


def status(objects: Sequence[Json], *options: str) -> Run:
    return dra("status", "-", *options, stdin=text_of(*objects))


def report(objects: Sequence[Json], *options: str) -> Any:  # Any: JSON
    run = status(objects, "-o", "json", *options)
    assert run.code == 0, run.err
    return orjson.loads(run.out)


def rows(run: Run) -> list[list[str]]:
    return [line.split() for line in run.out.splitlines()]


def state(found: Any, device: str) -> str:
    states = [one["state"] for pool in found["pools"] for one in pool["devices"] if one["name"] == device]
    assert len(states) == 1
    return str(states[0])


def a_rule(effect: str = "NoSchedule") -> Json:
    selector = {"driver": DRIVER, "pool": "node-1", "device": "gpu-1"}
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}}
    return {**an_object("resource.k8s.io/v1beta2", "DeviceTaintRule", "rule"), "spec": spec}


def partitions() -> Json:
    """A card of 80 that is given away whole, or in two halves."""
    devices = [
        {"name": name, "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]}
        for name, amount in (("whole", "80Gi"), ("half-0", "40Gi"), ("half-1", "40Gi"))
    ]
    counters = {"name": "card", "counters": {"memory": {"value": "80Gi"}}}
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [a_slice("devices", devices=devices, pool=pool), a_counters(counters, pool)],
    }


def a_counters(counters: Json, pool: Json) -> Json:
    found = a_slice("counters", sharedCounters=[counters], pool=pool)
    del found["spec"]["devices"]
    return found


def shared_gpu() -> Json:
    policy = {"default": "10Gi", "validRange": {"min": "1Gi"}}
    capacity = {"memory": {"value": "80Gi", "requestPolicy": policy}}
    return a_slice(devices=[{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}])


def a_share(amount: str = "30Gi") -> Json:
    claim = an_allocated_claim("share", "gpu-0")
    result = claim["status"]["allocation"]["devices"]["results"][0]
    result.update(shareID="0f6c1b2a-1111-4222-8333-444455556666", consumedCapacity={"memory": amount})
    return claim


# Which devices are free


def test_a_device_is_free_or_a_claim_holds_it() -> None:
    run = status([*a_cluster(), an_allocated_claim("c", "gpu-0")])
    assert run.code == 0
    assert rows(run) == [
        ["DRIVER", "DEVICES", "FREE", "ALLOCATED", "CLAIMS"],
        [DRIVER, "2", "1", "1", "1"],
        [],
        ["CLASS", "DEVICES", "FREE", "ALLOCATED", "CLAIMS", "LARGEST", "CLAIM"],
        ["gpu", "2", "1", "1", "1", "1", "device,", "on", "node-1"],
    ]


@pytest.mark.parametrize("options", [["--by", "namespace"], ["-n", "default"], ["-n", "default", "--by", "node"]])
def test_devices_that_claims_hold_have_no_column_of_free_ones(options: Sequence[str]) -> None:
    [header, row, *_] = rows(status([*a_cluster(), an_allocated_claim("c", "gpu-0")], *options))
    assert header[1:] == ["DEVICES", "ALLOCATED", "CLAIMS"]
    assert row[1:] == ["1", "1", "1"]


def test_a_tainted_device_is_not_free() -> None:
    cluster = [*a_cluster(), a_rule()]
    assert state(report(cluster, "--feature-gates", "DRADeviceTaintRules=true"), "gpu-1") == "tainted"
    assert (
        state(report([*a_cluster(), a_rule("None")], "--feature-gates", "DRADeviceTaintRules=true"), "gpu-1") == "free"
    )


def test_a_device_whose_counters_are_used_up_is_blocked() -> None:
    found = report([a_node(), a_class(), partitions(), an_allocated_claim("c", "half-0")])
    assert [state(found, name) for name in ("whole", "half-0", "half-1")] == ["blocked", "allocated", "free"]
    [pool] = found["pools"]
    assert pool["counters"] == [{"counterSet": "card", "name": "memory", "total": "80Gi", "left": "40Gi"}]


def test_a_device_of_which_a_claim_has_a_share_is_shared_and_what_is_left_is_shown() -> None:
    cluster = [a_node(), a_class(), shared_gpu(), a_share()]
    [device] = report(cluster)["pools"][0]["devices"]
    assert device["state"] == "shared"
    assert device["claims"] == ["default/share"]
    assert device["capacity"] == [{"name": "memory", "total": "80Gi", "left": "50Gi"}]
    assert rows(status(cluster, "--by", "device"))[1][-4:] == ["memory", "50Gi", "of", "80Gi"]


def test_devices_of_an_incomplete_pool_are_unusable_and_the_reason_is_shown() -> None:
    pool = {"name": "node-1", "generation": 3, "resourceSliceCount": 2}
    cluster = [a_node(), a_class(), a_slice(pool=pool), an_allocated_claim("c", "gpu-0")]
    found = report(cluster)
    assert [state(found, "gpu-0"), state(found, "gpu-1")] == ["allocated", "unusable"]
    assert found["pools"][0]["problem"] == "incomplete: 1 of 2 slices of generation 3 exist"
    assert f"{DRIVER}/node-1   incomplete: 1 of 2 slices of generation 3 exist" in status(cluster).out


def test_of_a_pool_only_the_newest_generation_counts() -> None:
    old = a_slice("old", devices=[{"name": "gone"}])
    new = a_slice("new", pool={"name": "node-1", "generation": 2, "resourceSliceCount": 1})
    found = report([a_node(), a_class(), old, new, an_allocated_claim("c", "gone")])
    [pool] = found["pools"]
    assert [one["name"] for one in pool["devices"]] == ["gpu-0", "gpu-1"]
    assert pool["unpublished"] == [{"name": "gone", "claims": ["default/c"]}]


def test_admin_access_takes_no_device() -> None:
    claim = an_allocated_claim("c", "gpu-0")
    claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert state(report([*a_cluster(), claim]), "gpu-0") == "free"


# What still fits


def test_the_largest_claim_is_as_large_as_one_node_allows() -> None:
    cluster = [a_node("node-1"), a_node("node-2"), a_class(), a_slice(count=3), a_slice(node="node-2", count=40)]
    [found] = report([*cluster, an_allocated_claim("c", "gpu-0")])["classes"]
    assert found["largestClaim"] == {"devices": 32, "nodes": ["node-2"]}  # more than 32 no claim can have


def test_where_nothing_fits_that_is_said() -> None:
    cluster = [*a_cluster(), an_allocated_claim("c", "gpu-0", "gpu-1")]
    assert "none fits" in status(cluster).out
    assert report(cluster)["classes"][0]["largestClaim"] == {"devices": 0, "nodes": []}


def test_devices_that_no_class_selects_are_listed_apart() -> None:
    found = report([a_node(), a_slice(), a_class("none", expressions=["false"])])
    assert [(one["name"], one["devices"], one["largestClaim"]) for one in found["classes"]] == [
        ("(no class)", 2, None),
        ("none", 0, {"devices": 0, "nodes": []}),
    ]


# Groups


@pytest.mark.parametrize(
    ("by", "line"),
    [
        ("driver", [DRIVER, "2", "1", "1", "1"]),
        ("pool", [f"{DRIVER}/node-1", "2", "1", "1", "1", "-"]),
        ("node", ["node-1", "2", "1", "1", "1"]),
        ("namespace", ["default", "1", "1", "1"]),
        ("device", [f"{DRIVER}/node-1/gpu-0", "node-1", "allocated", "default/c", "-", "-"]),
    ],
)
def test_a_table_has_a_line_for_each_group(by: str, line: list[str]) -> None:
    run = status([*a_cluster(), an_allocated_claim("c", "gpu-0")], "--by", by)
    assert run.code == 0
    assert line in rows(run)


def test_a_node_without_devices_is_listed_and_devices_of_several_nodes_are_counted_apart() -> None:
    everywhere = a_slice("net", node="rack", count=1, driver="net.example", allNodes=True)
    run = status([a_node("bare"), a_node(), a_slice(), everywhere], "--by", "node")
    assert [line[:2] for line in rows(run)[1:]] == [["(all", "nodes)"], ["bare", "0"], ["node-1", "2"]]


def test_by_claim_is_dra_claims() -> None:
    objects = [*a_cluster(), an_allocated_claim("c", "gpu-0")]
    run = dra("claims", "-", stdin=text_of(*objects))
    assert run.code == 0
    assert status(objects, "--by", "claim").out == run.out
    assert rows(run)[1][:5] == ["default", "c", "allocated", f"{DRIVER}/node-1/gpu-0", "node-1"]


# Input that says little


def test_without_slices_there_is_no_answer() -> None:
    run = status([a_node(), a_class()])
    assert (run.code, run.out) == (2, "")
    assert run.err.endswith("dra: the input contains no ResourceSlice\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--by", "namespace"], "no claim holds a device"),
        (["--by", "namespace", "-n", "ml"], "no claim in namespace ml holds a device"),
        (["--by", "device", "-n", "ml"], "no claim in namespace ml holds a device"),
        (["--by", "device"], ""),
    ],
)
def test_table_without_lines_says_why(options: Sequence[str], why: str) -> None:
    run = status([a_node(), a_class(), a_slice(), a_claim()], *options)
    assert run.err.splitlines() == ([why] if why else [])
    assert len(run.out.splitlines()) == (1 if why else 3)


def test_without_claims_a_warning_says_that_nothing_is_shown_as_allocated() -> None:
    run = status([a_node(), a_class(), a_slice()])
    assert "warning: the input contains no ResourceClaim: no device is shown as allocated" in run.err
    assert run.code == 0


def test_errors_of_the_input_end_it_unless_the_rest_is_asked_for(tmp_path: Path) -> None:
    broken = {**a_class("broken"), "spec": {"selectors": 3}}
    path = saved(tmp_path, *a_cluster(), broken)
    assert dra("status", path).code == 2
    run = dra("status", path, "--keep-going")
    assert run.code == 2
    assert DRIVER in run.out


def test_what_would_steer_the_terminal_is_written_out() -> None:
    assert str(ColumnTable(["A", "B"], [["\x1b[31mred", "x"]])) == "A             B\n\\x1b[31mred   x"


def test_page_holds_what_the_tables_and_the_json_do() -> None:
    objects = [*a_cluster(), an_allocated_claim("held", "gpu-0")]
    run = status(objects, "-o", "html")
    assert (run.code, run.err) == (0, "")
    tables = tables_of(run.out)
    assert tables.keys() == {
        *("drivers", "classes", "problems", "devices", "closed", "nodes", "pools", "namespaces", "claims")
    }
    found = report(objects)
    published = [(f"{pool['driver']}/{pool['name']}/{one['name']}", one["state"]) for pool in found["pools"]
                 for one in pool["devices"]]  # fmt: skip
    assert [(row[0], row[2]) for row in tables["devices"]] == published
    by_node = [aligned_row.split() for aligned_row in status(objects, "--by", "node").out.splitlines()[1:]]
    assert tables["nodes"] == by_node
    assert tables["claims"][0][:4] == ["default", "held", "allocated", f"{DRIVER}/node-1/gpu-0"]


def test_page_answers_in_words_first_and_names_problems() -> None:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    page = status([a_slice(devices=[{"name": "gpu-0"}], pool=pool)], "-o", "html").out
    assert answer_of(page) == [
        "0 of 1 device is free; 1 unusable.",
        "0 claims hold devices.",
        f"Pool {DRIVER}/node-1: incomplete: 1 of 2 slices of generation 1 exist.",
    ]


def test_page_is_whole_whatever_by_says() -> None:
    objects = [*a_cluster(), an_allocated_claim("held", "gpu-0")]
    assert status(objects, "-o", "html", "--by", "claim").out == status(objects, "-o", "html").out


def test_page_of_a_namespace_shows_what_its_claims_hold() -> None:
    objects = [*a_cluster(count=3), an_allocated_claim("held", "gpu-0")]
    page = status(objects, "-o", "html", "-n", "default").out
    assert answer_of(page)[0] == "1 claim in namespace default holds 1 device."
    assert [row[0] for row in tables_of(page)["devices"]] == [f"{DRIVER}/node-1/gpu-0"]
