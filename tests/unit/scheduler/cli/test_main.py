import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES

import click
import pytest
from click.shell_completion import BashComplete

from allocator.search import backtracking
from scheduler import VERSION
from scheduler.cli import main as entry
from scheduler.cli.main import COMMANDS
from scheduler.installation import InstallationError
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.documented import DOCS

HELP = {
    ("--help",): [
        "Examples:",
        "dra allocate cluster.yaml pending.yaml",
        "allocate ",
        "completion ",
        "scheduler ",
        "verify ",
    ],
    ("allocate", "--help"): [
        *("--pod", "--claim", "--node", "-o, --output", "[table|wide|json|yaml|name]", "--kubernetes", "--keep-going"),
        *("--feature-gates", "--strict", "--verbose"),
        *("Exit codes: 0 if everything was placed, 1 if something was not", "--overlay PATH", "Examples:"),
        "kubectl get resourceslices,",
    ],
    ("scheduler", "--help"): ["run "],
    ("scheduler", "run", "--help"): [
        *("--kubeconfig", "--context", "--scheduler-name", "--policy", "--feature-gates", "--config", "--dry-run"),
        *("--print-config", "Exit codes: 0 after a signal", "dra scheduler run --config c.yaml --policy pack"),
    ],
    ("extender", "config", "--help"): [
        *(
            "--mode",
            "--scheduler-name",
            "--url",
            "--ca-file",
            "--cert-file",
            "--key-file",
            "--http-timeout",
            "--weight",
        ),
        *("Exit codes: 0 if the configuration was written", "dra extender config > kube-scheduler.yaml"),
    ],
    ("extender", "check", "--help"): [
        *("FILE", "--kube-scheduler-flags", "--url", "-o, --output", "[table|json]", "Exit codes: 0 without errors"),
        "dra extender config | dra extender check - -o json",
    ],
    ("verify", "--help"): ["allocation ", "cel "],
    ("verify", "allocation", "--help"): [
        "FILE...",
        "--kubernetes",
        "--no-strict",
        "Exit code: 0 if no case failed, 1 if one failed",
    ],
    ("verify", "cel", "--help"): ["FILE...", "--kubernetes", "Exit code: 0 if no case failed, 1 if one failed"],
    ("completion", "--help"): ["{bash|fish|zsh}", "~/.bashrc:", "~/.zshrc:", "dra completion fish | source"],
}


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_says_what_a_command_does_with_examples(arguments: tuple[str, ...]) -> None:
    run = dra(*arguments)
    assert run.code == 0
    text = " ".join(run.out.split())
    missing = [part for part in HELP[arguments] if " ".join(part.split()) not in text]
    assert not missing


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_fits_a_terminal(arguments: tuple[str, ...]) -> None:
    assert max(map(len, dra(*arguments).out.splitlines())) <= 120


def test_short_help_is_help() -> None:
    assert dra("allocate", "-h").out == dra("allocate", "--help").out


def test_version_says_whether_the_allocator_is_compiled() -> None:
    run = dra("--version")
    form = "compiled" if backtracking.__file__.endswith(tuple(EXTENSION_SUFFIXES)) else "not compiled"
    assert (run.code, run.out) == (0, f"dra, version {VERSION} ({form})\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Usage: dra"),
        (("frobnicate",), "No such command 'frobnicate'"),
        (("alocate",), "No such command 'alocate'. Did you mean 'allocate'?"),
        (("explain",), "Missing argument 'POD|CLAIM'"),
        (("allocate", "-", "--context", "c"), "--kubeconfig and --context name a cluster to read: they exclude PATH."),
        (("allocate", "-", "-o", "html"), "'html' is not one of"),
        (("allocate", "-", "--frobnicate"), "No such option"),
        (("allocate", "-", "--kubernetes", "1.20"), "'1.20' is not one of"),
        (("verify", "allocation"), "Missing argument 'FILE...'"),
        (("completion", "tcsh"), "'tcsh' is not one of"),
    ],
)
def test_a_wrong_call_is_bad_input_and_says_what_is_wrong(arguments: tuple[str, ...], message: str) -> None:
    run = dra(*arguments)
    assert run.code == 2
    assert message in run.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_in_the_list_what_its_own_help_says(name: str) -> None:
    module, summary = COMMANDS[name]
    command = importlib.import_module(module).command
    assert command.name == name
    assert summary in dra("--help").out
    assert dra(name, "--help").code == 0


@pytest.mark.parametrize(
    ("shell", "parts"),
    [
        ("bash", ["_DRA_COMPLETE=bash_complete", "complete -o nosort -F"]),
        ("zsh", ["#compdef dra", "_DRA_COMPLETE=zsh_complete"]),
        ("fish", ["complete --no-files --command dra", "_DRA_COMPLETE=fish_complete"]),
    ],
)
def test_completion_scripts_are_printed_for_three_shells(shell: str, parts: list[str]) -> None:
    run = dra("completion", shell)
    assert run.code == 0
    assert [part for part in parts if part not in run.out] == []


def test_docs_completion_md_says_where_the_help_says_that_the_scripts_go() -> None:
    help_text = " ".join(dra("completion", "--help").out.split())
    rows = re.findall(r"\| (\w+) \| `(.+?)` \| `(.+)` \|", (DOCS / "completion.md").read_text())
    assert [shell for shell, _, _ in rows] == ["bash", "zsh", "fish"]
    for _, file, line in rows:
        assert f"{file}: {line}".replace("\\|", "|") in help_text


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """All subcommands that are no groups."""
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found
        yield from commands(found, click.Context(found, parent=context, info_name=name))


def test_every_help_has_an_example_and_says_what_each_option_does() -> None:
    found = list(commands(entry.dra, click.Context(entry.dra, info_name="dra")))
    assert len(found) > len(COMMANDS)
    for context in found:
        assert f"{context.command_path} " in context.command.get_help(context).partition("Example")[2]
        assert [one.name for one in context.command.params if isinstance(one, click.Option) and not one.help] == []


def test_a_broken_installation_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise InstallationError("the package 'cel' is also installed by cel-bind")

    monkeypatch.setattr(entry, "verify", broken)
    with pytest.raises(SystemExit) as exited:
        entry.main()
    assert exited.value.code == 2
    assert capsys.readouterr() == ("", "dra: the package 'cel' is also installed by cel-bind\n")


PLACING = (
    *(("allocate",), ("explain",), ("fit",), ("whatif",), ("simulate",)),
    *(("scheduler", "run"), ("extender", "serve")),
)
"""Subcommands that take a policy and gates."""


def completions(*words: str) -> list[str]:
    """What a shell offers after these words, the last of them begun."""
    completion = BashComplete(entry.dra, {}, "dra", "_DRA_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("al",), ["allocate"]),
        (("verify", ""), ["allocation", "cel"]),
        (("allocate", "--po"), ["--pod"]),
        (("allocate", "x.yaml", "-o", "j"), ["json"]),
        (("completion", ""), ["bash", "fish", "zsh"]),
        *(((*command, "--policy", "best"), ["best-fit"]) for command in PLACING),
        *(((*command, "--feature-gates", "DRAAdmin"), ["DRAAdminAccess=true"]) for command in PLACING),
    ],
)
def test_a_shell_completes_commands_options_and_values(words: tuple[str, ...], offered: list[str]) -> None:
    assert [word for word in completions(*words) if word in offered] == offered


@pytest.mark.parametrize("command", [("allocate",), ("verify", "allocation"), ("verify", "cel")])
def test_a_shell_completes_files(command: tuple[str, ...]) -> None:
    completion = BashComplete(entry.dra, {}, "dra", "_DRA_COMPLETE")
    assert [item.type for item in completion.get_completions([*command], "clus")] == ["file"]


def test_the_package_runs_as_the_program() -> None:
    run = subprocess.run([sys.executable, "-m", "scheduler", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("dra, version ")


def test_help_groups_the_commands_by_what_a_user_wants() -> None:
    text = dra("--help").out
    places = [text.index(f"\n{title}:\n") for title in ("Ask", "Plan", "Check", "Run", "Develop")]
    assert places == sorted(places)
    assert text.index("\n  explain ") < places[1] < text.index("\n  whatif ") < places[2]
    assert all(text.count(f"\n  {name} ") == 1 for name in COMMANDS)
