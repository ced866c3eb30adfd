"""The flags of `dra scheduler run` come to a configuration, and what cannot be used is told with its place."""

from pathlib import Path

import pytest

from scheduler.input.yaml_1_1 import documents
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.manifests import Json

HEAD = "apiVersion: dra-scheduler.dev/v1alpha1\nkind: DraSchedulerConfiguration\n"


def printed(*arguments: str | Path) -> Json:
    """What the scheduler would run with."""
    run = dra("scheduler", "run", *arguments, "--print-config")
    assert (run.code, run.err) == (0, "")
    ((_, document),) = documents(run.out)
    assert isinstance(document, dict)
    return document


def test_every_flag_sets_its_field() -> None:
    flags = [
        *("--kubeconfig", "k", "--context", "c", "--scheduler-name", "mine", "--policy", "spread"),
        *(
            "--kubernetes",
            "1.36",
            "--feature-gates",
            "DRADeviceTaintRules=true,DRAPartitionableDevices=false",
            "--strict",
        ),
        *("--dry-run", "--allocate-prescheduled", "--binding-concurrency", "3", "--binding-timeout", "30"),
        *("--health-address", "0.0.0.0:1", "--log-format", "json", "--log-level", "debug"),
        *("--preemption", "devices", "--preempt-pods-of", "own", "--preemption-delay", "5", "--never-preempt", "a=b"),
        *("--group-reservation", "10m", "--leader-elect=false"),
    ]
    found, default = printed(*flags), printed()
    assert {field for field, value in found.items() if value == default[field]} == {
        *("apiVersion", "kind", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "podMaxInUnschedulablePodsSeconds"),
        *("groupsOf", "limits", "limitsConfigMap", "profiles", "secureServing"),
    }
    assert found["clientConnection"] == {"kubeconfig": "k", "context": "c"}
    assert found["featureGates"] == {"DRADeviceTaintRules": True, "DRAPartitionableDevices": False}
    assert found["bindingTimeoutSeconds"] == 30
    assert found["groupReservationSeconds"] == 600
    assert found["logging"] == {"format": "json", "level": "debug"}
    assert found["leaderElection"] == {**default["leaderElection"], "leaderElect": False}


def test_leading_is_the_default_and_can_be_asked_for_in_kube_schedulers_ways() -> None:
    ways = [(), ("--leader-elect",), ("--leader-elect=true",), ("--leader-elect", "--strict")]
    assert [printed(*way)["leaderElection"]["leaderElect"] for way in ways] == [True] * 4


def test_flags_go_before_the_file_in_both_directions(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}dryRun: true\npolicy: pack\n")
    assert printed("--config", path)["dryRun"] is True
    found = printed("--config", path, "--no-dry-run")
    assert (found["dryRun"], found["policy"]) == (False, "pack")


def test_printed_configuration_can_be_given_back(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(dra("scheduler", "run", "--policy", "pack", "--print-config").out)
    assert printed("--config", path) == printed("--policy", "pack")


def test_all_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}polcy: pack\nbindingConcurrency: 0\n")
    run = dra("scheduler", "run", "--config", path)
    assert run.code == 2
    fields = [line.removeprefix(f"dra: {path}: ").partition(":")[0] for line in run.err.splitlines()]
    assert sorted(fields) == ["bindingConcurrency", "polcy"]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--policy", "best"), "dra: flags: policy: 'best' is not among the policies"),
        (("--feature-gates", "A"), "'A' is not NAME=true or NAME=false"),
        (("--config", "absent.yaml"), "dra: absent.yaml: cannot be read: No such file"),
        (("--health-address", "here"), "dra: flags: healthAddress: must be HOST:PORT"),
        (("--binding-timeout", "0.1"), "dra: flags: bindingTimeoutSeconds:"),
    ],
)
def test_flag_that_cannot_be_used_ends_the_command(arguments: tuple[str, ...], reported: str) -> None:
    run = dra("scheduler", "run", *arguments)
    assert run.code == 2
    assert reported in run.err
