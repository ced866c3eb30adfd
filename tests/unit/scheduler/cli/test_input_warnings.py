"""What an input has and a gate that is off ignores is said by every command that reads it, once."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import orjson
import pytest

from scheduler.cli.main import dra as program
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.manifests import DRIVER, Json, a_claim, a_class, a_node, a_pod, a_slice, a_template, an_object

SAYS_NOTHING = {
    "dump": "writes the input as it is, and decides nothing",
}
"""Commands that read an input and are not asked, with the reason."""

ARGUMENTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "allocate": ((), ()),
    "audit": ((), ()),
    "cel": (("true",), ()),
    "claims": ((), ()),
    "compare": ((), ("--peer", "absent")),
    "defrag": ((), ("--for", "pod/default/pod-1")),
    "explain": (("pod-1",), ()),
    "fit": (("pod/default/pod-1",), ()),
    "lint": ((), ()),
    "plan": ((), ("--like", "node-1")),
    "simulate": ((), ()),
    "status": ((), ()),
    "whatif": ((), ("--overlay", "cordon:node-1")),
}
"""By command: what goes before the path, and what goes after it."""

WARNING = "warning: DRAPartitionableDevices is off (--feature-gates DRAPartitionableDevices=true turns it on): "


def commands_on_an_input() -> Iterator[str]:
    context = click.Context(program)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        names = {parameter.name for parameter in command.params}
        if "release" in names and names & {"paths", "arguments"}:
            yield name


def partitions() -> list[Json]:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    counters = a_slice("counters", pool=pool, sharedCounters=[{"name": "set", "counters": {"c": {"value": "2"}}}])
    del counters["spec"]["devices"]
    consumes = [{"counterSet": "set", "counters": {"c": {"value": "1"}}}]
    devices = [{"name": f"part-{number}", "consumesCounters": consumes} for number in range(3)]
    return [
        a_node(),
        counters,
        a_slice("devices", pool=pool, devices=devices),
        *(a_class(), a_template(), a_claim(), a_pod(template="one")),
    ]


def test_every_command_on_an_input_is_asked() -> None:
    assert set(commands_on_an_input()) == ARGUMENTS.keys() | SAYS_NOTHING.keys()


@pytest.mark.parametrize("command", sorted(ARGUMENTS.keys() - {"lint"}))
def test_a_gate_that_is_off_is_said_once_by_every_command(tmp_path: Path, command: str) -> None:
    before, after = ARGUMENTS[command]
    run = dra(command, *before, saved(tmp_path, *partitions()), *after, "--kubernetes", "1.34")
    lines = [line for line in run.err.splitlines() if line.startswith(WARNING)]
    assert [line.removeprefix(WARNING) for line in lines] == [
        "slices with counters or with devices of several nodes are ignored (1 slice)",
        "devices that consume counters are not allocated (3 devices)",
    ]
    silent = dra(command, *before, saved(tmp_path, *partitions()), *after)
    assert WARNING not in silent.err


def test_a_gate_that_is_off_is_a_finding_of_lint(tmp_path: Path) -> None:
    run = dra("lint", saved(tmp_path, *partitions()), "-o", "json", "--kubernetes", "1.34")
    found = [one for one in orjson.loads(run.out)["items"] if one["rule"] == "gate-off"]
    assert [one["message"].partition(": ")[2] for one in found] == [
        "slices with counters or with devices of several nodes are ignored (1 slice)",
        "devices that consume counters are not allocated (3 devices)",
    ]
    assert "DRAPartitionableDevices" not in run.err


def test_devices_that_need_a_gate_that_is_off_are_not_counted_as_free(tmp_path: Path) -> None:
    path = saved(tmp_path, *partitions())
    counts = {
        release: orjson.loads(dra("status", path, "-o", "json", "--kubernetes", release).out)["drivers"]
        for release in ("1.34", "1.36")
    }
    assert [(one["name"], one["free"]) for one in counts["1.34"]] == [(DRIVER, 0)]
    assert [(one["name"], one["free"]) for one in counts["1.36"]] == [(DRIVER, 3)]


@pytest.mark.parametrize(
    "raw",
    [
        an_object("foo/v1", "Foo", "f"),
        an_object("foo.example/v1", "Pod", "f"),
        {**an_object("v1", "ConfigMap", "c"), "data": {"a": "b"}},
    ],
)
@pytest.mark.parametrize("command", ARGUMENTS)
def test_an_input_of_which_nothing_counts_is_no_success(tmp_path: Path, command: str, raw: Json) -> None:
    before, after = ARGUMENTS[command]
    run = dra(command, *before, saved(tmp_path, raw), *after)
    assert (run.code, run.out) == (2, "")
    assert "the input contains no " in run.err.splitlines()[-1]
