"""The pure parts of the offline tool's benchmark: what it is given, whether its answer is right, and the figures."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.endtoend.workload import Json, Size
from benchmarks.extender.figures import Row
from benchmarks.offline.answer import Answer, WrongOutput, check, read
from benchmarks.offline.cases import (
    CASES,
    COUNTS,
    COUNTS_THAT_FIT,
    DEVICES_OF_NODE,
    LEAST_PODS,
    MOST_PODS_OF_NODE,
    NAMESPACES,
    Case,
    objects,
    write,
)
from benchmarks.offline.figures import TARGET_MIB, TARGET_S, Run, rows
from benchmarks.offline.measurement import measure, run
from benchmarks.offline.run import measure_all
from scheduler.offline.placement import UnplacedPod
from scheduler.output.placement_report import reason_of
from tests.unit.scheduler import scenario
from tests.unit.scheduler.scenario import inventory_of

SMALL = Size(60, 120)
SIZES = [SMALL, Size(LEAST_PODS // MOST_PODS_OF_NODE, LEAST_PODS), Size(75, 149), Size(150, 100)]

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


class Spent(NamedTuple):
    """What of a model is there, and what is wanted."""

    there: Counter[str]
    wanted: Counter[str]


def of_kind(case: Case, kind: str, size: Size = SMALL) -> list[Json]:
    return [one for one in objects(case, size) if one["kind"] == kind]


def model_of(node_slice: Json) -> str:
    (model,) = {device["attributes"]["model"]["string"] for device in node_slice["spec"]["devices"]}
    return str(model)


def spent(case: Case, size: Size) -> Spent:
    there, wanted = Counter[str](), Counter[str]()
    for one in of_kind(case, "ResourceSlice", size):
        there[model_of(one)] += len(one["spec"]["devices"])
    for claim in of_kind(case, "ResourceClaim", size):
        for request in claim["spec"]["devices"]["requests"]:
            (selector,) = request["exactly"]["selectors"]
            (model,) = [model for model in there if f'"{model}"' in selector["cel"]["expression"]]
            wanted[model] += request["exactly"]["count"]
    return Spent(there, wanted)


def a_pod(name: str, node: str = "", reason: str = "") -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": reason}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-00"},
        "spec": {"nodeName": node} if node else {},
        **({"status": {"conditions": [condition]}} if reason else {}),
    }


def an_answer(placed: int, refused: int) -> Json:
    claims = [{"kind": "ResourceClaim", "metadata": {"name": f"claim-{n}"}} for n in range(placed + refused)]
    pods = [a_pod(f"placed-{number}", node="node-1") for number in range(placed)]
    return {"items": [*claims, *pods, *(a_pod(f"refused-{number}", reason="why") for number in range(refused))]}


def a_run(case: str, wall_s: float, peak_mib: float = 500.0) -> Run:
    return Run(case, wall_s, wall_s + 0.5, peak_mib, 90, 10)


@every_case
def test_the_input_is_the_same_on_every_run(case: Case, tmp_path: Path) -> None:
    for name in ("first", "second"):
        write(case, SMALL, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    document = json.loads((tmp_path / "first").read_text())
    assert document == {"apiVersion": "v1", "kind": "List", "items": list(objects(case, SMALL))}


@every_case
def test_there_is_as_much_of_each_kind_as_was_asked_for(case: Case) -> None:
    kinds = Counter(one["kind"] for one in objects(case, SMALL))
    assert kinds == {"DeviceClass": 1, "Node": 60, "ResourceSlice": 60, "ResourceClaim": 120, "Pod": 120}
    assert {len(one["spec"]["devices"]) for one in of_kind(case, "ResourceSlice")} == {DEVICES_OF_NODE}


@every_case
def test_every_object_is_one_that_the_tool_reads_without_error(case: Case) -> None:
    inventory = inventory_of(*objects(case, SMALL))
    assert len(inventory.pods) == 120
    assert len(inventory.nodes) == 60


@every_case
def test_pods_are_of_twelve_kinds_in_twenty_namespaces_each_with_a_claim_of_its_own(case: Case) -> None:
    pods, claims = of_kind(case, "Pod"), of_kind(case, "ResourceClaim")
    used = [(pod["metadata"]["namespace"], pod["spec"]["resourceClaims"][0]["resourceClaimName"]) for pod in pods]
    assert used == [(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in claims]
    assert len(set(used)) == 120
    assert set(Counter(namespace for namespace, _ in used).values()) == {120 // NAMESPACES}
    kinds = {
        (json.dumps(claim["spec"]), json.dumps(pod["spec"]["containers"][0]["resources"]["requests"]))
        for pod, claim in zip(pods, claims, strict=True)
    }
    assert len(kinds) == 12


@every_case
def test_no_two_devices_have_the_same_uuid(case: Case) -> None:
    devices = [device for one in of_kind(case, "ResourceSlice") for device in one["spec"]["devices"]]
    assert len({device["attributes"]["uuid"]["string"] for device in devices}) == 60 * DEVICES_OF_NODE


@pytest.mark.parametrize(("name", "turns"), [("none", COUNTS_THAT_FIT), ("tenth", COUNTS)])
def test_pods_want_the_counts_by_turns_and_four_of_one_numa_node(name: str, turns: Sequence[int]) -> None:
    found = [claim["spec"]["devices"] for claim in of_kind(CASES[name], "ResourceClaim")]
    counts = [devices["requests"][0]["exactly"]["count"] for devices in found]
    assert counts == [turns[number % len(turns)] for number in range(120)]
    assert all(("constraints" in one) == (count == 4) for one, count in zip(found, counts, strict=True))


@pytest.mark.parametrize("size", [*SIZES, Size(5000, 10_000)], ids=str)
def test_too_few_are_devices_of_one_model_alone_and_only_where_pods_are_to_be_refused(size: Size) -> None:
    there, wanted = spent(CASES["none"], size)
    assert all(wanted[model] < there[model] for model in there)
    there, wanted = spent(CASES["tenth"], size)
    assert sorted(wanted[model] < there[model] for model in there) == [False, True]


def test_nodes_with_devices_of_one_model_are_spread_over_all() -> None:
    models = [model_of(one) for one in of_kind(CASES["tenth"], "ResourceSlice", Size(5000, 10_000))]
    rare = min(Counter(models).items(), key=lambda item: item[1])[0]
    parts = [models[start : start + 500].count(rare) for start in range(0, 5000, 500)]
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize("name", ["none", "tenth"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_many_pods_are_refused_as_the_case_says(name: str, size: Size) -> None:
    case = CASES[name]
    results = scenario.run(*objects(case, size)).results
    refused = sum(isinstance(result, UnplacedPod) for result in results)
    assert len(results) == size.pods
    assert case.least <= refused / size.pods <= case.most


def test_pods_that_nothing_will_do_for_are_refused_for_different_reasons() -> None:
    results = scenario.run(*objects(CASES["all"], Size(12, 24))).results
    refused = [result for result in results if isinstance(result, UnplacedPod)]
    assert len(refused) == 24
    # Two of the kinds lack the same model: where the first part of a selector refuses all, only that one is named.
    assert len({reason_of(result).replace(str(result.claims[0]), "its claim") for result in refused}) == 11


@pytest.mark.parametrize(("name", "placed", "refused"), [("none", 20, 0), ("tenth", 18, 2), ("all", 0, 20)])
def test_an_answer_that_is_right_is_counted(name: str, placed: int, refused: int) -> None:
    assert check(an_answer(placed, refused), CASES[name], 20) == Answer(placed, refused)


@pytest.mark.parametrize(
    ("name", "placed", "refused", "said"),
    [
        ("none", 19, 1, "1 of 20 pods refused, but it has to be 0%"),
        ("tenth", 20, 0, "0 of 20 pods refused, but it has to be 5% to 20%"),
        ("tenth", 15, 5, "5 of 20 pods refused, but it has to be 5% to 20%"),
        ("all", 1, 19, "19 of 20 pods refused, but it has to be 100%"),
        ("none", 19, 0, "19 pods placed and 0 refused are 19, but there are 20"),
        ("all", 0, 21, "0 pods placed and 21 refused are 21, but there are 20"),
    ],
)
def test_an_answer_with_other_numbers_does_not_count(name: str, placed: int, refused: int, said: str) -> None:
    with pytest.raises(WrongOutput, match=said):
        check(an_answer(placed, refused), CASES[name], 20)


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (a_pod("a", node="node-1", reason="why"), "pod team-00/a is both placed and refused"),
        (a_pod("a"), "pod team-00/a is neither placed nor refused"),
    ],
)
def test_a_pod_is_placed_or_refused(pod: Json, said: str) -> None:
    with pytest.raises(WrongOutput, match=said):
        check({"items": [pod]}, CASES["none"], 1)


def test_another_condition_is_no_refusal() -> None:
    pod = a_pod("a", node="node-1")
    conditions = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]
    pod["status"] = {"conditions": conditions}
    assert check({"items": [pod]}, CASES["none"], 1) == Answer(1, 0)


@pytest.mark.parametrize("document", [{}, [], {"items": [{}]}, {"items": [{"kind": "Pod"}]}, {"items": ["Pod"]}, None])
def test_what_is_no_list_of_objects_is_reported(document: object) -> None:
    with pytest.raises(WrongOutput, match="no List of claims and pods"):
        check(document, CASES["none"], 1)


def test_output_that_was_cut_off_is_reported(tmp_path: Path) -> None:
    (tmp_path / "output").write_text('{"items": [')
    with pytest.raises(WrongOutput, match="not JSON"):
        read(tmp_path / "output")


def test_what_a_program_takes_is_measured_and_what_it_writes_kept(tmp_path: Path) -> None:
    text = "import sys; held = b'x' * (100 * 2**20); print('out'); print('err', file=sys.stderr); sys.exit(3)"
    usage = run([sys.executable, "-c", text], tmp_path / "out", tmp_path / "err")
    assert usage.exit_code == 3
    assert usage.cpu_s > 0
    assert usage.wall_s > 0
    assert usage.peak_mib > 100
    assert [(tmp_path / name).read_text() for name in ("out", "err")] == ["out\n", "err\n"]


def test_memory_of_the_process_that_measures_is_not_the_programs(tmp_path: Path) -> None:
    mine = b"x" * (200 * 2**20)
    usage = measure([sys.executable, "-c", ""], tmp_path / "out", tmp_path / "err")
    assert usage.exit_code == 0
    assert usage.peak_mib < len(mine) / 2**20


def a_program(folder: Path, text: str) -> Path:
    program = folder / "dra"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def test_the_tool_is_run_on_each_case_in_each_round_and_what_came_of_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(json.dumps(an_answer(108, 12)))
    program = a_program(tmp_path, f'echo "$@" >> {tmp_path}/asked; cat {tmp_path}/answer; exit 1')
    runs = measure_all(program, [CASES["tenth"]], SMALL, 2, tmp_path)
    assert [(one.case, one.placed, one.refused) for one in runs] == [("a tenth refused", 108, 12)] * 2
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[0::2] for line in asked] == [["allocate", "-o"]] * 2
    assert [line.split()[3] for line in asked] == ["json"] * 2
    assert len(json.loads((tmp_path / "runs.json").read_text())) == 2
    assert json.loads((tmp_path / "results.json").read_text())[0]["target"] == TARGET_S


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo one >&2; echo two >&2; exit 2", "all refused: dra ended with 2: two"),
        ("exit 2", "all refused: dra ended with 2: it said nothing"),
        ("kill -9 $$", "all refused: dra ended with -9"),
        ("echo '{}'", "all refused: the output is no List"),
    ],
)
def test_a_run_that_did_not_end_well_is_reported_with_its_case(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(WrongOutput, match=said):
        measure_all(a_program(tmp_path, text), [CASES["all"]], SMALL, 1, tmp_path)


def test_figures_are_medians_of_a_case_with_what_they_have_to_stay_under() -> None:
    found = rows([a_run("a", 3.0), a_run("b", 8.0), a_run("a", 5.0), a_run("b", 9.0), a_run("a", 4.0, 501.0)])
    assert found[:2] == [
        Row("a: time", "s", 4.0, 3.0, 5.0, TARGET_S),
        Row("a: processor time", "s", 4.5, 3.5, 5.5),
    ]
    assert found[2] == Row("a: peak memory", "MiB", 500.0, 500.0, 501.0, TARGET_MIB)
    assert [(row.case, row.ours) for row in found[3:5]] == [("a: placed", 90), ("a: refused", 10)]
    assert [row.case for row in found if row.target is not None] == [
        f"{case}: {what}" for case in "ab" for what in ("time", "peak memory")
    ]


def test_progress_reports_what_a_run_took_and_answered() -> None:
    assert str(a_run("a", 3.04)) == "3.0 s, 3.5 s of processor time, 500 MiB, 90 placed, 10 refused"
