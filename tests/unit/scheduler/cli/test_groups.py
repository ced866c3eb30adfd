"""Groups of pods offline: placed whole, explained, counted; and docs/groups.md, whose commands print what it shows."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.core_v1.group_terms import GROUP, MINIMUM
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.manifests import a_class, a_slice, a_template
from tests.unit.scheduler.output.pages import answer_of, tables_of

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "groups.md").read_text()
EXAMPLE = ROOT / "manifests" / "examples" / "groups"
FLEET, CLAIMS = EXAMPLE / "fleet.yaml", EXAMPLE / "claims.yaml"


def commands() -> Iterator[tuple[str, str]]:
    """Each command of the page with what it shows."""
    for block in re.findall(r"```console\n\$ dra (.*?)```", PAGE, re.DOTALL):
        command, _, shown = block.partition("\n")
        yield command, shown


@pytest.mark.parametrize(("command", "shown"), list(commands()))
def test_page_shows_what_its_commands_print(command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert dra(*shlex.split(command)).out == shown


def test_page_names_each_manifest() -> None:
    assert [one.name for one in EXAMPLE.iterdir() if one.name not in PAGE] == []


def changed(name: str, tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = (EXAMPLE / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / name
    path.write_text(text)
    return path


FIVE = (("completions: 3", "completions: 5"), ("parallelism: 3", "parallelism: 5"))


def placed(*arguments: str | Path) -> tuple[dict[str, str], str]:
    """By pod its node, and what else is told."""
    run = dra("allocate", FLEET, CLAIMS, *arguments, "-o", "json")
    items = json.loads(run.out)["items"]
    pods = [one for one in items if one["kind"] == "Pod" and "nodeName" in one["spec"]]
    return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods}, run.err


def test_allocate_places_all_of_a_group_or_nobody(tmp_path: Path) -> None:
    job = changed("job.yaml", tmp_path, *FIVE, ('group-min: "3"', 'group-min: "5"'))
    run = dra("allocate", FLEET, CLAIMS, job)
    assert run.code == 1
    assert "group ml/train: 5 of 5 pods have to fit at once: in rack-a, 4 of 5 fit; pod train-4: " in run.out
    assert run.err.splitlines()[-1] == "0 of 5 placed"


def a_pod(name: str, priority: int, **fields: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, **fields.pop("metadata", {})}
    spec = {"containers": [container], "priority": priority, **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("size", "gone"), [(2, 1), (4, 3), (5, 0)])
def test_others_go_for_a_whole_group_or_nobody_does(tmp_path: Path, size: int, gone: int) -> None:
    """Two nodes have room and devices for two pods each, and three pods of lower priority are there."""
    room = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "9"}}
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{at}"}, "status": room} for at in range(2)]
    low = [a_pod(f"low{at}", 1, nodeName=f"n{at % 2}") for at in range(3)]
    marks = {"labels": {GROUP: "g"}, "annotations": {MINIMUM: str(size)}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    gang = [a_pod(f"g{at}", 9, metadata=marks, resourceClaims=claims) for at in range(size)]
    devices = [a_class(), a_template(), *(a_slice(node=f"n{at}", count=2) for at in range(2))]
    run = dra("allocate", saved(tmp_path, *devices, *nodes, *low, *gang), "--preempt", "-o", "json")
    found = json.loads(run.out)
    assert sum("low" in victim["name"] for one in found["preemptions"] for victim in one["victims"]) == gone
    assert run.err.splitlines()[-1].startswith(f"{size if gone else 0} of {size} placed")


def test_members_beyond_the_minimum_stay_out_of_other_domains(tmp_path: Path) -> None:
    nodes, told = placed(changed("job.yaml", tmp_path, *FIVE))
    assert set(nodes.values()) == {"node-0", "node-1"}
    assert "4 of 5 placed" in told


def test_one_pod_of_a_group_is_placed_with_the_others() -> None:
    run = dra("allocate", FLEET, CLAIMS, EXAMPLE / "job.yaml", "--pod", "ml/train-2")
    assert "1 of 1 placed" in run.err
    assert "train-0" not in run.out


def test_group_waits_for_pods_that_are_missing(tmp_path: Path) -> None:
    run = dra("explain", "group/ml/train", FLEET, CLAIMS, changed("job.yaml", tmp_path, ('min: "3"', 'min: "4"')))
    assert run.code == 1
    assert "Waits: waiting for 1 of 4 pods of group ml/train" in run.out


def test_claim_of_a_pod_group_is_made_once_for_all(tmp_path: Path) -> None:
    of_group = "  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]\n---"
    group = changed("podgroup.yaml", tmp_path, ("---", of_group))
    run = dra("allocate", FLEET, CLAIMS, group, "-o", "json")
    claims: list[Any] = [one for one in json.loads(run.out)["items"] if one["kind"] == "ResourceClaim"]
    (shared,) = (one for one in claims if one["metadata"]["name"].startswith("tune-gpu-"))
    assert [owner["kind"] for owner in shared["metadata"]["ownerReferences"]] == ["PodGroup"]
    assert len(claims) == 4


def test_without_a_pod_group_in_the_input_its_pods_are_pods_of_their_own(tmp_path: Path) -> None:
    text = (EXAMPLE / "podgroup.yaml").read_text()
    alone = tmp_path / "pods.yaml"
    alone.write_text(text.partition("---\n")[2])
    nodes, told = placed(alone)
    assert len(nodes) == 3
    assert "warning: without a PodGroup in the input, pod groups are ignored (3 pods)" in told


def test_devices_of_a_group_are_of_one_rail() -> None:
    run = dra("explain", "group/ml/rails", FLEET, CLAIMS, EXAMPLE / "jobset.yaml", "-o", "json")
    members = json.loads(run.out)["members"]
    assert {device[-1] for one in members for device in one["devices"]} == {"0"}


def test_an_attribute_that_no_device_has_is_named(tmp_path: Path) -> None:
    path = changed("jobset.yaml", tmp_path, ("*=example.com/rail", "gpu=example.com/track"))
    run = dra("explain", "group/ml/rails", FLEET, CLAIMS, path)
    assert run.code == 1
    assert "Refused: no device has the attribute example.com/track" in run.out


def test_whatif_says_that_a_group_loses_its_place() -> None:
    run = dra("whatif", FLEET, CLAIMS, EXAMPLE / "job.yaml", "--overlay", "remove:node/node-0")
    assert run.code == 0
    run = dra(
        "whatif", FLEET, CLAIMS, EXAMPLE / "job.yaml",
        "--overlay", "remove:node/node-0", "--overlay", "remove:node/node-3",
    )  # fmt: skip
    assert run.code == 1
    assert re.search(r"not placed +0 +3", run.out)


def test_status_lists_groups_with_their_state(tmp_path: Path) -> None:
    job = changed("job.yaml", tmp_path, *FIVE, ('group-min: "3"', 'group-min: "5"'))
    run = dra("status", FLEET, CLAIMS, job, EXAMPLE / "raycluster.yaml", "--by", "group", "-o", "json")
    groups = {one["group"]: one["state"] for one in json.loads(run.out)["groups"]}
    assert groups == {"ml/train": "DoesNotFit", "ml/ray": "Fits"}
    assert dra("status", FLEET, "--by", "group").out == "no group of pods\n"


def test_fit_counts_groups_up_to_a_number() -> None:
    run = dra("fit", "group/ml/train", FLEET, CLAIMS, EXAMPLE / "job.yaml", "--replicas", "1", "-o", "json")
    assert run.code == 0
    fit = json.loads(run.out)
    assert (fit["copies"], fit["isLimited"], fit["next"]) == (1, False, None)


def test_page_of_a_group_shows_its_pods_and_the_devices_that_they_take() -> None:
    run = dra("explain", "group/ml/train", FLEET, CLAIMS, EXAMPLE / "job.yaml", "-o", "html")
    assert run.code == 0
    assert answer_of(run.out) == [
        "3 of 3 waiting pods fit in rack-a.",
        "group ml/train (label): 3 pods, minimum 3, priority 0, in one example.com/rack.",
    ]
    tables = tables_of(run.out)
    assert [row[:3] for row in tables["members"]] == [
        ["train-0", "fits", "node-0"],
        ["train-1", "fits", "node-1"],
        ["train-2", "fits", "node-0"],
    ]
    taken = {row[0] for row in tables["devices"] if row[-1] == "taken"}
    assert taken == {name for row in tables["members"] for name in row[3].split(", ")}


def test_page_of_a_group_without_a_place_says_what_each_domain_lacks(tmp_path: Path) -> None:
    wider = changed("job.yaml", tmp_path, ("3\n  parallelism: 3", "7\n  parallelism: 7"), ('"3"', '"7"'))
    run = dra("explain", "group/ml/train", FLEET, CLAIMS, wider, "-o", "html")
    assert run.code == 1
    assert answer_of(run.out)[0] == "Does not fit: 7 of 7 pods have to fit at once."
    tables = tables_of(run.out)
    assert {row[1] for row in tables["members"]} == {"waits"}
    assert {row[0] for row in tables["domains"]} == {"rack-a", "rack-b"}
    assert {row[2] for row in tables["devices"]} == {"free"}


def test_page_of_copies_of_a_group_marks_what_they_take() -> None:
    run = dra("fit", "group/ml/train", FLEET, CLAIMS, EXAMPLE / "job.yaml", "--replicas", "1", "-o", "html")
    assert answer_of(run.out) == ["1 more of group ml/train fits."]
    tables = tables_of(run.out)
    assert sum(int(row[1]) for row in tables["nodes"]) == 3
    assert sum(row[-1] == "taken" for row in tables["devices"]) == 6


def test_page_of_all_groups_says_where_each_goes_or_what_it_lacks(tmp_path: Path) -> None:
    wider = changed("job.yaml", tmp_path, ("3\n  parallelism: 3", "7\n  parallelism: 7"), ('"3"', '"7"'))
    run = dra("status", "--by", "group", FLEET, CLAIMS, wider, EXAMPLE / "raycluster.yaml", "-o", "html")
    assert run.code == 0
    assert answer_of(run.out) == ["2 groups of pods: 1 does not fit, 1 fits."]
    rows = {row[0]: row for row in tables_of(run.out)["groups"]}
    assert rows["ml/ray"][6:] == ["Fits", "on node-0, node-1, node-2"]
    assert rows["ml/train"][6] == "DoesNotFit"
    assert rows["ml/train"][7].startswith("7 of 7 pods have to fit at once")
    assert answer_of(dra("status", "--by", "group", FLEET, "-o", "html").out) == ["no group of pods."]


def test_pod_of_a_group_is_explained_on_its_own_and_says_so() -> None:
    run = dra("explain", "ml/train-0", FLEET, CLAIMS, EXAMPLE / "job.yaml")
    assert "explained on its own: group/ml/train explains the group that it is placed with" in run.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("explain", "group/ml/trian"), "group ml/trian has no pod in the input; did you mean ml/train?"),
        (("explain", "group/ml/train", "--node", "node-0"), "a group is placed whole"),
        (("fit", "group/ml/trian"), "group ml/trian has no pod in the input"),
    ],
)
def test_what_cannot_be_asked_of_groups_is_named(arguments: tuple[str, ...], told: str) -> None:
    command, *rest = arguments
    run = dra(command, *rest[:1], FLEET, CLAIMS, EXAMPLE / "job.yaml", *rest[1:])
    assert run.code == 2
    assert told in run.err


KINDS = {
    "job": ("ml/train", "label", 3),
    "jobset": ("ml/rails", "label", 4),
    "jobset-rack": ("ml/pair", "label", 4),
    "leaderworkerset": ("ml/serve", "label", 3),
    "mpijob": ("ml/mpi", "label", 2),
    "raycluster": ("ml/ray", "label", 3),
    "podgroup": ("ml/tune", "PodGroup", 3),
    "compositepodgroup": ("ml/llm", "CompositePodGroup", 5),
    "kueue": ("ml/plain", "Kueue", 2),
    "kueue-workload": ("ml/queued", "Kueue", 3),
}
"""By example the group that its object is expanded into, by what it says so, and how many pods that has."""


@pytest.mark.parametrize("example", KINDS)
def test_every_command_sees_the_group_of_an_object_that_creates_pods(example: str) -> None:
    group, source, number = KINDS[example]
    read = (FLEET, CLAIMS, EXAMPLE / f"{example}.yaml", "--groups-of", "Kueue")
    _, told = placed(EXAMPLE / f"{example}.yaml", "--groups-of", "Kueue")
    assert f"{number} of {number} placed" in told
    fitting = json.loads(dra("fit", EXAMPLE / f"{example}.yaml", *read[:2], *read[3:], "-o", "json").out)
    assert (fitting["group"]["group"], fitting["group"]["pods"]) == (group, number)
    assert fitting["copies"] >= 1
    assert sum(one["pods"] for one in fitting["nodes"]) == number * fitting["copies"]
    explained = json.loads(dra("explain", f"group/{group}", *read, "-o", "json").out)
    assert (explained["source"], explained["minimum"], explained["verdict"]) == (source, number, "Fits")
    listed = json.loads(dra("status", "--by", "group", *read, "-o", "json").out)["groups"]
    assert [(one["group"], one["source"], one["state"]) for one in listed] == [(group, source, "Fits")]
    # Each node has devices for two members: on one, larger groups have no place, and then none of their members has.
    gone = [option for at in range(1, 4) for option in ("--overlay", f"remove:node/node-{at}")]
    compared = json.loads(dra("whatif", *read, *gone, "-o", "json").out)
    with_devices = sum(bool(one["devices"]) for one in explained["members"])
    assert (compared["before"]["placed"], compared["after"]["placed"]) == (number, number if with_devices < 3 else 0)


def test_folder_of_all_examples_is_one_cluster() -> None:
    run = dra("status", "--by", "group", EXAMPLE, "--groups-of", "Kueue", "-o", "json")
    assert run.code == 0
    assert {one["group"]: one["state"] for one in json.loads(run.out)["groups"]} == {
        group: "Fits" for group, *_ in KINDS.values()
    }


def test_pods_beside_the_group_of_a_file_are_not_copied_and_named() -> None:
    run = dra("fit", EXAMPLE / "mpijob.yaml", FLEET, CLAIMS)
    assert run.out.startswith("4 more of group ml/mpi fit\n")
    assert "mpijob.yaml is not in group ml/mpi, and not copied" in run.err


def test_file_with_several_groups_does_not_say_which_is_copied(tmp_path: Path) -> None:
    both = tmp_path / "both.yaml"
    both.write_text("---\n".join((EXAMPLE / f"{name}.yaml").read_text() for name in ("job", "mpijob")))
    run = dra("fit", both, FLEET, CLAIMS)
    assert run.code == 2
    assert "contains 2 groups of pods (ml/mpi, ml/train): name one of them, such as group/ml/mpi" in run.err


def test_kinds_of_groups_are_no_choice_of_other_tables() -> None:
    run = dra("status", FLEET, "--groups-of", "Kueue")
    assert run.code == 2
    assert "--groups-of says what a group is: use it with --by group." in run.err


def test_group_of_groups_that_does_not_fit_names_the_group_in_it(tmp_path: Path) -> None:
    """Each rack has four GPUs: five in one are too many, and then the other group is not placed either."""
    changes = (("minCount: 3", "minCount: 5"), ("ons: 3", "ons: 5"), ("ism: 3", "ism: 5"))
    more = changed("compositepodgroup.yaml", tmp_path, *changes)
    run = dra("allocate", FLEET, CLAIMS, more)
    assert run.code == 1
    assert run.err.splitlines()[-1] == "0 of 7 placed"
    assert "group ml/llm: 7 of 7 pods have to fit at once: 6 of 7 fit; pod decode-4 of PodGroup decode: 0/2 " in run.out
    one = tmp_path / "one.yaml"
    one.write_text(more.read_text().replace("minGroupCount: 2", "minGroupCount: 1"))
    nodes, _ = placed(one)
    assert sorted(nodes) == ["prefill-0", "prefill-1"]
    (state,) = json.loads(dra("status", "--by", "group", FLEET, CLAIMS, more, "-o", "json").out)["groups"]
    assert state["state"] == "DoesNotFit"
    assert [(own["name"], own["minimum"]) for own in state["groups"]] == [("llm", 2), ("decode", 5), ("prefill", 2)]
