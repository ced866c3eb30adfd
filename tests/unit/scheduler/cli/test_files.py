"""Whatever a user names as a file that is none: the command says which, in words, and ends with its documented code."""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from scheduler.cli.ending import FilePath
from scheduler.cli.main import dra as program
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.manifests import a_cluster, a_pod, a_template, text_of

BAD_INPUT = 2


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if found := command.get_command(context, name):
                yield from _commands(found, (*path, name))
    else:
        yield path, command


PATHS = [
    pytest.param(path, one.opts[0] if isinstance(one, click.Option) else "", id=" ".join((*path, str(one.name))))
    for path, command in _commands(program)
    for one in command.params
    if isinstance(one.type, click.Path)
]
READING = {"allocate", "audit", "claims", "dump", "lint", "status"}


def test_every_path_is_of_the_type_that_refuses_the_empty_one() -> None:
    types = {type(one.type) for _, command in _commands(program) for one in command.params}
    assert click.Path not in types
    assert FilePath in types


@pytest.mark.parametrize(("command", "option"), PATHS)
def test_empty_path_is_refused_by_the_name_of_its_option(command: tuple[str, ...], option: str) -> None:
    before = [option] if option else ["pod/p"] if command == ("fit",) else []
    run = dra(*command, *before, "")
    assert run.code == BAD_INPUT
    assert "'' names no file" in run.err
    assert option in run.err


@pytest.mark.parametrize("command", sorted(READING))
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "x" * 5000, "/nowhere/x", "/dev/null/x"])
def test_what_cannot_be_read_is_named(command: str, path: str, tmp_path: Path) -> None:
    if path.startswith("/dev/") and not Path("/dev/full").exists():
        pytest.skip("there are no such devices")
    for arguments in ([path], [saved(tmp_path, *a_cluster()), "--overlay", path]):
        if command == "dump" and len(arguments) > 1:
            continue
        run = dra(command, *arguments)
        assert run.code == BAD_INPUT or (command == "lint" and run.code == 1)  # for which it is a finding
        assert path[:80] in run.err + run.out
        assert "Errno" not in run.err + run.out


def test_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    cluster = saved(tmp_path, *a_cluster(), a_template("one"), a_pod("p", template="one"))
    for path in ("/nowhere/x", str(tmp_path), "x" * 5000):
        run = dra("dump", cluster, "-o", path)
        assert run.code == BAD_INPUT
        assert path[:80] in run.err


def test_nothing_device_is_an_empty_file() -> None:
    run = dra("status", os.devnull)
    assert run.code == BAD_INPUT
    assert "contains no objects" in run.err


@pytest.mark.parametrize("command", [["fit", "-"], ["defrag", "--for", "-"]])
def test_what_is_to_fit_can_come_from_standard_input_which_is_read_once(command: list[str], tmp_path: Path) -> None:
    cluster = saved(tmp_path, *a_cluster(), a_template("one"))
    run = dra(*command, cluster, stdin=text_of(a_pod("p", template="one")))
    assert run.code == 0
    assert "pod default/p" in run.out


def test_what_is_to_fit_can_come_from_a_pipe(tmp_path: Path) -> None:
    cluster = saved(tmp_path, *a_cluster(), a_template("one"))
    end, other = os.pipe()
    os.write(other, text_of(a_pod("p", template="one")).encode())
    os.close(other)
    try:
        run = dra("fit", f"/dev/fd/{end}", cluster)
    finally:
        os.close(end)
    assert "pod default/p" in run.out
