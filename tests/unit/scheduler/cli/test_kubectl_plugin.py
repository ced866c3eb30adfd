"""`kubectl dra`, and what shells suggest."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from allocator.policies import NAMES
from scheduler.cli import completion, live_cluster
from tests.unit.scheduler.cli.command import saved
from tests.unit.scheduler.manifests import a_cluster, a_pod

Suggested = Callable[..., Sequence[str]]


def called(function: str, *arguments: str, module: str = "main") -> subprocess.CompletedProcess[str]:
    """The program of the entry point, in a process of its own."""
    program = f"from scheduler.cli.{module} import {function}; {function}()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_the_plugin_says_how_it_is_called() -> None:
    run = called("kubectl_plugin", "allocate", "--help")
    assert run.returncode == 0
    assert run.stdout.startswith("Usage: kubectl dra allocate ")
    assert "  kubectl dra allocate cluster.yaml pending.yaml" in run.stdout
    assert "| kubectl dra allocate -" in run.stdout
    assert "Usage: dra allocate" in called("main", "allocate", "--help").stdout


@pytest.mark.parametrize(("command", "example"), [("", "explain train-0"), ("explain", "explain pod train-0 -n ml")])
def test_the_plugin_shows_examples_on_the_cluster_of_the_context(command: str, example: str) -> None:
    text = called("kubectl_plugin", *command.split(), "--help").stdout
    assert f"    kubectl dra {example}\n" in text
    assert example not in called("main", *command.split(), "--help").stdout


def test_the_plugin_gives_the_answers_of_the_program(tmp_path: Path) -> None:
    path = str(saved(tmp_path, *a_cluster()))
    plugin, program = called("kubectl_plugin", "status", path), called("main", "status", path)
    assert (plugin.returncode, plugin.stdout) == (program.returncode, program.stdout)
    assert "FREE" in plugin.stdout


def test_both_are_installed() -> None:
    text = (Path(__file__).resolve().parents[4] / "pyproject.toml").read_text()
    assert 'kubectl-dra = "scheduler.cli.main:kubectl_plugin"' in text
    assert 'kubectl_complete-dra = "scheduler.cli.completion:kubectl_complete"' in text


@pytest.fixture
def suggested(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Suggested:
    """What kubectl is told, in this process: suggestions without their description, and the directive."""

    def run(*words: str) -> Sequence[str]:
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-dra", *words])
        completion.kubectl_complete()
        told = capsys.readouterr()
        assert told.err == ""
        return [line.partition("\t")[0] for line in told.out.splitlines()]

    return run


def test_kubectl_calls_a_program() -> None:
    run = called("kubectl_complete", "stat", module="completion")
    assert (run.returncode, run.stderr) == (0, "")
    assert [line.partition("\t")[0] for line in run.stdout.splitlines()] == ["status", ":4"]


def test_kubectl_is_told_commands_and_options(suggested: Suggested) -> None:
    found = suggested("")
    assert {"status", "explain", "dump", ":4"} <= set(found)
    assert suggested("stat") == ["status", ":4"]
    assert "--namespace" in suggested("status", "--n")


def test_files_are_left_to_the_shell(suggested: Suggested) -> None:
    assert suggested("status", "") == [":0"]


def test_policies_and_gates_are_suggested(suggested: Suggested) -> None:
    assert suggested("allocate", "--policy", "") == [*NAMES, ":4"]
    assert suggested("allocate", "--policy", NAMES[0][:3])[0] == NAMES[0]
    gate = "DRADeviceTaints=true"
    assert gate in suggested("status", "--feature-gates", "DRADev")
    assert f"{gate},DRAAdminAccess=false" in suggested("status", "--feature-gates", f"{gate},DRAAdmin")


def test_namespaces_and_pods_of_the_files_are_suggested(suggested: Suggested, tmp_path: Path) -> None:
    path = str(saved(tmp_path, *a_cluster(), a_pod("p", namespace="ml"), a_pod("q", namespace="web")))
    assert {"ml", "web"} <= set(suggested("status", path, "-n", ""))
    assert suggested("status", path, "-n", "m") == ["ml", ":4"]
    assert suggested("allocate", path, "--pod", "") == ["ml/p", "web/q", ":4"]
    assert suggested("allocate", path, "-n", "ml", "--pod", "") == ["ml/p", ":4"]


def test_what_cannot_be_read_suggests_nothing(suggested: Suggested, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    assert suggested("status", absent, "-n", "") == [":4"]
    assert suggested("explain", "--kubeconfig", absent, "") == [":0"]


def test_pods_of_the_cluster_are_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.shell_completion import ShellComplete

    from scheduler.cli.main import dra

    monkeypatch.setattr(live_cluster, "names_of", lambda _access, _resource: [("ml", "p"), ("web", "q")])
    found = ShellComplete(dra, {}, "dra", "").get_completions(["explain"], "ml")
    assert [one.value for one in found] == ["ml/p"]
    assert [one.type for one in ShellComplete(dra, {}, "dra", "").get_completions(["explain", "ml/p"], "")] == ["file"]
