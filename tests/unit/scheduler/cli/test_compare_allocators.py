"""`dra compare`: what differs from the answers of another program, and what is said where it cannot be asked."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import Json, a_claim, a_cluster, a_pod, a_slice, an_allocated_claim, text_of

ANSWER = {"results": {"node-1": None}, "errors": {}, "errorKinds": {}}


def a_peer(folder: Path, answer: object) -> Path:
    """A program that answers everything so."""
    program = folder / "peer"
    program.write_text(f"#!/bin/sh\nwhile read line; do echo '{orjson.dumps(answer).decode()}'; done\n")
    program.chmod(0o755)
    return program


def objects() -> list[Json]:
    return [*a_cluster(), a_claim("want", namespace="ml"), a_pod("p", claim="want", namespace="ml")]


def compared(*options: str | Path, given: list[Json] | None = None) -> Run:
    return dra("compare", "-", *options, stdin=text_of(*(given or objects())))


def test_an_answer_that_differs_is_printed_with_its_pod(tmp_path: Path) -> None:
    run = compared("--peer", a_peer(tmp_path, ANSWER))
    assert (run.code, run.out.splitlines()[0]) == (1, "1 of 1 differ")
    assert "pod ml/p: on node node-1: " in run.out
    assert [line.split()[0] for line in run.out.splitlines()[2:5]] == ["ALLOCATOR", "kube-scheduler", "dra"]


def test_the_same_answer_is_no_difference(tmp_path: Path) -> None:
    nobody = [one for one in objects() if one["kind"] != "ResourceSlice"]
    run = compared("--peer", a_peer(tmp_path, ANSWER), "-o", "json", given=[*nobody])
    found: Any = orjson.loads(run.out)
    assert (run.code, found["kind"], found["nodes"], found["differences"]) == (0, "Comparison", 1, 0)
    assert [(one["name"], one["difference"]) for one in found["items"]] == [("pod ml/p", None)]


@pytest.mark.parametrize(
    ("answer", "said"), [({"fault": "no such field"}, "pod ml/p: no such field"), ("ends", "is not an answer")]
)
def test_a_program_that_does_not_answer_is_named(tmp_path: Path, answer: object, said: str) -> None:
    run = compared("--peer", a_peer(tmp_path, answer))
    assert (run.code, run.out, said in run.err) == (2, "", True)


def test_a_program_that_is_not_there_or_ends_is_named(tmp_path: Path) -> None:
    assert "No such file or directory" in compared("--peer", tmp_path / "absent").err
    assert "it ended with code 1" in compared("--peer", "/bin/false").err


def test_without_go_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    run = compared()
    assert (run.code, run.out) == (2, "")
    assert "kube-scheduler's allocator cannot be asked: there is no Go: install Go 1.26 or later" in run.err


def test_a_release_that_cannot_be_built_is_named() -> None:
    assert "of Kubernetes 1.37 and 1.36, not of 1.34" in compared("--kubernetes", "1.34").err


def test_errors_of_the_input_end_it_unless_the_rest_is_asked_for(tmp_path: Path) -> None:
    given = [*objects(), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": 7}]
    run = compared(given=given)
    assert (run.code, run.out) == (2, "")
    assert run.err.endswith("dra: 1 error in the input; --keep-going uses the rest of it\n")
    rest = compared("--peer", a_peer(tmp_path, ANSWER), "--keep-going", given=given)
    assert (rest.code, rest.out.splitlines()[0]) == (2, "1 of 1 differ")


def test_what_cannot_be_compared_is_named(tmp_path: Path) -> None:
    peer = a_peer(tmp_path, ANSWER)
    assert "no pending pod or claim in namespace web" in compared("--peer", peer, "-n", "web").err
    old = [*objects(), a_claim("old", version="resource.k8s.io/v1beta2")]
    assert "ResourceClaim of resource.k8s.io/v1beta2: only objects of" in compared("--peer", peer, given=old).err


RECORDER = """#!/bin/sh
while read line; do echo "$line" > {file}; echo '{answer}'; done
"""


def asked_of(folder: Path, *options: str | Path, given: list[Json] | None = None) -> Any:
    """What the other allocator is asked."""
    program, file = folder / "peer", folder / "asked.json"
    answer = {**ANSWER, "results": {"node-1": None, "node-1-copy-1": None}}
    program.write_text(RECORDER.format(file=file, answer=orjson.dumps(answer).decode()))
    program.chmod(0o755)
    run = compared("--peer", program, *options, given=given)
    assert run.code in (0, 1), run.err
    return orjson.loads(file.read_text())


def test_objects_of_overlays_replace_those_of_the_input(tmp_path: Path) -> None:
    overlay = saved(tmp_path, a_slice(count=1))
    before, after = (asked_of(tmp_path, *options) for options in ((), ("--overlay", overlay)))
    assert [len(one["slices"][0]["spec"]["devices"]) for one in (before, after)] == [2, 1]
    assert len(after["slices"]) == 1


def test_changes_are_made_before_anybody_is_asked(tmp_path: Path) -> None:
    asked = asked_of(tmp_path, "--overlay", "add:node-1:1")
    copy = "node-1-copy-1"
    assert [one["metadata"]["name"] for one in asked["nodes"]] == ["node-1", copy]
    of_copy = asked["slices"][1]
    assert (of_copy["spec"]["nodeName"], of_copy["spec"]["pool"]["name"]) == (copy, copy)
    held = [*objects(), an_allocated_claim("held", "gpu-0"), a_pod("user", claim="held", node="node-1")]
    assert len(asked_of(tmp_path, given=held)["allocatedClaims"]) == 1


def test_nodes_are_those_of_the_slices_where_the_input_has_none(tmp_path: Path) -> None:
    asked = asked_of(tmp_path, given=[one for one in objects() if one["kind"] != "Node"])
    assert [one["metadata"]["name"] for one in asked["nodes"]] == ["node-1"]
