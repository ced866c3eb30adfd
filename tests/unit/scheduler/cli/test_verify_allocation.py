import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_node,
    a_request,
    a_slice,
    an_allocation,
)


def a_case(name: str = "case", *, results: Any = None, error: str = "", **fields: Any) -> Json:
    """One claim for one of two devices; recorded is the first of them unless the case says otherwise."""
    return {
        "name": name,
        "features": {},
        "node": a_node(),
        "slices": [a_slice()],
        "deviceClasses": [a_class()],
        "claims": [a_claim("c", a_request(allocationMode="ExactCount", count=1))],
        "allocatedState": {},
        "expected": {"results": results if results is not None else [an_allocation("gpu-0")], "error": error},
        **fields,
    }


def nothing(name: str, **fields: Any) -> Json:
    return {**a_case(name, **fields), "expected": {"results": None, "error": ""}}


def lines(cases: Iterable[Json]) -> str:
    return "".join(json.dumps(case) + "\n" for case in cases)


def verify(*cases: Json, options: tuple[str, ...] = ()) -> Run:
    return dra("verify", "allocation", "-", *options, stdin=lines(cases))


def last(run: Run) -> str:
    return run.out.splitlines()[-1]


MANY = [a_claim("c", a_request(allocationMode="ExactCount", count=3))]
MISSING_CLASS = [a_claim("c", a_request(device_class="none", allocationMode="ExactCount", count=1))]


def test_a_case_that_agrees_passes() -> None:
    run = verify(a_case())
    assert (run.code, run.out) == (0, "1 passed, 0 failed, 0 skipped\n")


def test_a_case_in_which_nothing_fits_passes_where_nothing_was_recorded() -> None:
    assert verify(nothing("n", claims=MANY)).code == 0


def test_a_case_that_is_an_error_passes_whatever_the_text() -> None:
    assert verify(a_case(error="could not find class", claims=MISSING_CLASS)).code == 0


@pytest.mark.parametrize(
    ("case", "difference"),
    [
        (a_case("x", results=[an_allocation("gpu-1")]), "expected allocated "),
        (a_case("x", claims=MANY), "got refused"),
        (nothing("x"), "expected refused, got allocated "),
        (nothing("x", claims=MISSING_CLASS), "expected refused, got fatal "),
        (a_case("x", error="broken"), "expected fatal broken, got allocated "),
        (a_case("x", results=[an_allocation("gpu-0"), an_allocation("gpu-1")]), "expected allocated "),
        (a_case("x", results=[an_allocation("gpu-0", is_local=False)]), '"nodeSelector"'),
    ],
)
def test_a_case_that_differs_fails_with_its_name_and_the_difference(case: Json, difference: str) -> None:
    run = verify(case)
    failed, summary = run.out.splitlines()
    assert failed.startswith("FAILED x: on node node-1: ")
    assert difference in failed
    assert (run.code, summary) == (1, "0 passed, 1 failed, 0 skipped")


def test_all_cases_are_counted_and_the_count_comes_last() -> None:
    run = verify(a_case("a"), nothing("b"), a_case("c"), nothing("d"))
    assert run.code == 1
    assert [line.split(":")[0] for line in run.out.splitlines()] == [
        "FAILED b",
        "FAILED d",
        "2 passed, 2 failed, 0 skipped",
    ]


def taken(device: str, amount: str = "") -> Json:
    """A device in use: whole, or a share of it that consumes the amount of memory."""
    held = {"driver": DRIVER, "pool": "node-1", "device": device}
    if not amount:
        return {"allocatedDevices": [held]}
    return {
        "allocatedSharedDeviceIDs": [{**held, "shareID": "share-1"}],
        "aggregatedCapacity": [{**held, "capacity": {"memory": amount}}],
    }


def shared(device: str, amount: str) -> Json:
    """The allocation of a share of the device."""
    allocation = an_allocation(device)
    allocation["devices"]["results"][0] |= {"shareID": "share-2", "consumedCapacity": {"memory": amount}}
    return allocation


CARDS = [
    {"name": f"card-{number}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "4Gi"}}}
    for number in (0, 1)
]
WITH_CARDS: Json = {
    "features": {"ConsumableCapacity": True},
    "slices": [a_slice(devices=CARDS)],
    "claims": [a_claim("c", a_request(allocationMode="ExactCount", count=1, capacity={"requests": {"memory": "2Gi"}}))],
}


def test_what_the_case_says_is_in_use_is_not_given_again() -> None:
    assert verify(a_case(allocatedState=taken("gpu-0"), results=[an_allocation("gpu-1")])).code == 0


@pytest.mark.parametrize(("used", "device"), [("2Gi", "card-0"), ("3Gi", "card-1")])
def test_what_is_left_of_a_shared_device_is_what_the_case_leaves_of_it(used: str, device: str) -> None:
    case = a_case(**WITH_CARDS, allocatedState=taken("card-0", used), results=[shared(device, "2Gi")])
    assert verify(case).out == "1 passed, 0 failed, 0 skipped\n"


def test_quantities_compare_by_amount_and_share_ids_not_at_all() -> None:
    assert verify(a_case(**WITH_CARDS, results=[shared("card-0", "2048Mi")])).code == 0
    assert verify(a_case(**WITH_CARDS, results=[shared("card-0", "2049Mi")])).code == 1


def test_a_feature_that_the_case_turns_off_is_off() -> None:
    assert verify(a_case(**{**WITH_CARDS, "features": {}}, results=[shared("card-0", "2Gi")])).code == 1


def test_a_case_may_turn_on_all_features() -> None:
    assert verify(a_case(**{**WITH_CARDS, "features": "all"}, results=[shared("card-0", "2Gi")])).code == 0


def test_an_interrupted_case_is_an_error() -> None:
    assert verify(a_case(context="cancelled", error="context canceled")).code == 0


def test_absent_and_empty_fields_of_results_are_equal() -> None:
    allocation = an_allocation("gpu-0")
    allocation["devices"]["config"] = []
    allocation["devices"]["results"][0]["adminAccess"] = None
    assert verify(a_case(results=[allocation])).code == 0


def test_each_node_of_a_case_is_compared() -> None:
    nodes = [a_node("node-1"), a_node("node-2")]
    recorded = {"node-1": [an_allocation("gpu-0")], "node-2": None}
    expected = {"results": recorded, "errors": {"node-1": "", "node-2": ""}}
    assert verify(a_case(nodes=nodes, expected=expected)).code == 0
    wrong = {"results": {**recorded, "node-2": [an_allocation("gpu-0")]}, "errors": expected["errors"]}
    assert "on node node-2: expected allocated" in verify(a_case(nodes=nodes, expected=wrong)).out


def test_a_case_without_a_node_sees_what_every_node_reaches() -> None:
    slices = [a_slice(allNodes=True)]
    assert verify(a_case(node=None, slices=slices, results=[an_allocation("gpu-0", is_local=False)])).code == 0


def test_the_release_decides_where_releases_differ() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    allocation = an_allocation("gpu-0")
    allocation["devices"]["config"] = [{"source": "FromClass", "requests": ["gpu"], **opaque}]
    case = a_case(deviceClasses=[a_class(config=[opaque])], results=[allocation])
    assert verify(case, options=("--kubernetes", "1.36")).code == 0
    assert verify(case).code == 1


def test_several_files_are_counted_together_and_empty_lines_are_left_out(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for file in files:
        file.write_text("\n" + lines([a_case()]) + "\n\n")
    assert last(dra("verify", "allocation", *files)) == "2 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "5",
        "[]",
        "{}",
        '{"name": "a"}',
        "{" * 5000,
        json.dumps(a_case(slices=5)),
        json.dumps(a_case(node={"metadata": 5})),
        json.dumps(a_case(claims=[a_claim("c", a_request(count="many"))])),
        json.dumps(a_case(slices=[{**a_slice(), "spec": {"driver": 5}}])),
        json.dumps(a_case(features={"Frobnication": True})),
        json.dumps(a_case(features="some")),
        json.dumps(a_case(features=[])),
        json.dumps(a_case(expected={})),
    ],
)
def test_a_line_that_is_no_case_is_bad_input_with_file_and_line(line: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(lines([a_case()]) + line + "\n")
    run = dra("verify", "allocation", file)
    assert run.code == 2
    assert run.err.startswith(f"dra: {file}: line 2 is not a valid case: ")
    assert len(run.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[]", "the line must be an object, not a list of 0 entries"),
        ('{"name": "a"}', "node is missing"),
        (json.dumps(a_case(slices=5)), "slices must be a list, not 5"),
        (json.dumps(a_case(claims=[5])), "claims[0] must be an object, not 5"),
        (json.dumps(a_case(features={"Frobnication": True})), "features names Frobnication, which the format does not"),
        (json.dumps(a_case(allocatedState={"allocatedDevices": [{"driver": "d"}]})), "pool is missing"),
        (json.dumps(a_case(expected={})), "results is missing"),
    ],
)
def test_what_a_line_lacks_is_reported_in_words(line: str, problem: str) -> None:
    assert dra("verify", "allocation", "-", stdin=line).err.startswith(f"dra: -: line 1 is not a valid case: {problem}")


@pytest.mark.parametrize("content", [b"\x00\x01\xff\xfe", b"\x80"])
def test_a_binary_file_is_bad_input(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_bytes(content)
    assert dra("verify", "allocation", file).code == 2


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    run = dra("verify", "allocation", tmp_path / "none.jsonl")
    assert (run.code, run.err) == (2, f"dra: {tmp_path}/none.jsonl: No such file or directory\n")


def test_a_folder_is_bad_input(tmp_path: Path) -> None:
    run = dra("verify", "allocation", tmp_path)
    assert run.code == 2
    assert "directory" in run.err
