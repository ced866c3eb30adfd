"""`make install`: what it links, what it leaves alone, and what it says next."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "manifests" / "install" / "install.py"


@pytest.fixture(scope="module")
def installer() -> Any:
    spec = spec_from_file_location("install", PATH)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_three_commands_are_linked_and_nothing_else(tmp_path: Path, installer: Any) -> None:
    home, folder = tmp_path / "share" / "dra-scheduler", tmp_path / "bin"
    installer.link(home, folder)
    installer.check_links(home, folder)
    installer.link(home, folder)
    found = {path.name: path.readlink() for path in folder.iterdir()}
    assert found == {name: home / "bin" / name for name in ("dra", "kubectl-dra", "kubectl_complete-dra")}


@pytest.mark.parametrize("is_link", [True, False])
def test_a_command_of_another_installation_stays(tmp_path: Path, installer: Any, *, is_link: bool) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "kubectl-dra"
    if is_link:
        path.symlink_to(tmp_path / "gone")
    else:
        path.write_text("another")
    with pytest.raises(installer.InstallFailure, match=str(path)):
        installer.install(tmp_path, ROOT / "requirements" / "run.txt")
    assert [one.name for one in tmp_path.rglob("*")] == ["bin", "kubectl-dra"]


def next_steps(installer: Any, folder: Path, path: str) -> str:
    return "\n".join(installer.next_steps(folder, {"PATH": path}))


def an_executable(folder: Path) -> Path:
    folder.mkdir()
    (folder / "dra").write_text("#!/bin/sh\n")
    (folder / "dra").chmod(0o755)
    return folder


def test_what_comes_next_depends_on_the_path(tmp_path: Path, installer: Any) -> None:
    ours, other = an_executable(tmp_path / "bin"), an_executable(tmp_path / "other")
    found = next_steps(installer, ours, f"{ours}:{other}")
    assert found.splitlines()[0] == "Next:"
    assert "  dra explain research/wish" in found
    assert f'  export PATH="{ours}:$PATH"' in next_steps(installer, ours, os.fspath(tmp_path))
    found = next_steps(installer, ours, f"{other}:{ours}")
    assert f"another dra first: {other / 'dra'}" in found
    assert f"  {ours / 'dra'} explain" in found


def test_each_step_is_a_line_with_its_seconds_and_a_failure_shows_what_was_printed(
    installer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    installer.run("say", [sys.executable, "-c", "print('quiet')"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1:] for line in lines[1:]] == [["s", "say"]]
    with pytest.raises(installer.InstallFailure, match=r"(?s)fall: .* exited with 3\n.*why"):
        installer.run("fall", [sys.executable, "-c", "import sys; print('why'); sys.exit(3)"])
