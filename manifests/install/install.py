# ruff: noqa: INP001, T201, S603 - a program of its own, which prints and runs the steps that it names
"""`make install`: the program in an environment of its own, and its three commands in PREFIX/bin.

Runs before anything is installed, so it imports the standard library alone. Everything is installed by locked hashes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

COMMANDS = ("dra", "kubectl-dra", "kubectl_complete-dra")
"""What is linked; python and pip of the environment would hide those of the system."""

ROOT = Path(__file__).resolve().parents[2]


class InstallFailure(Exception):
    """A step failed, or a file is in the way; its text says which."""


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=Path, default=Path.home() / ".local", help="default: ~/.local")
    parser.add_argument("--requirements", default="run", help="file of requirements/ without .txt, such as dask")
    arguments = parser.parse_args()
    try:
        install(arguments.prefix.expanduser().absolute(), ROOT / "requirements" / f"{arguments.requirements}.txt")
    except InstallFailure as error:
        sys.exit(f"error: {error}")


def install(prefix: Path, requirements: Path) -> None:
    """Install below prefix, with a line for each step. Raises InstallFailure."""
    home, folder = prefix / "share" / "dra-scheduler", prefix / "bin"
    check_links(home, folder)
    with tempfile.TemporaryDirectory() as name:
        build, wheels = Path(name, "build"), Path(name, "wheels")
        shutil.rmtree(ROOT / "build", ignore_errors=True)  # of an earlier build: setuptools would pack its files again
        run("prepare an environment to build in", venv_command(build))
        run("install the build requirements", [*pip(build), *locked(ROOT / "requirements" / "build.txt")])
        wheel = [*pip(build, "wheel"), "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)]
        run(f"build the wheel: {compiling(os.environ)}", wheel)
        run(f"prepare {home}", venv_command(home))
        run("install the requirements", [*pip(home), *locked(requirements)])
        found = [str(path) for path in wheels.glob("*.whl")]
        run("install the program", [*pip(home), "--no-deps", "--no-index", "--force-reinstall", *found])
    link(home, folder)
    version = subprocess.run([folder / "dra", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"\nInstalled {version}: {', '.join(COMMANDS)} in {folder}")
    print("\n".join(next_steps(folder, os.environ)))


def compiling(environment: Mapping[str, str]) -> str:
    """What setup.py does with the allocator, and how long that takes."""
    if environment.get("DRA_COMPILE", "") == "0":
        return "not compiled (DRA_COMPILE=0)"
    return "compiles the allocator, if there is a C compiler; takes one to two minutes"


def venv_command(place: Path) -> Sequence[str]:
    """Makes the environment, or the one that is there anew: what an older program required is gone."""
    return [sys.executable, "-m", venv.__name__, "--clear", str(place)]


def pip(place: Path, command: str = "install") -> Sequence[str]:
    """A command of the environment's own pip."""
    return [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", command, "--quiet"]


def locked(file: Path) -> Sequence[str]:
    """The arguments that install a file of requirements, each with its hash."""
    return ["--require-hashes", "-r", str(file)]


def run(what: str, command: Sequence[str]) -> None:
    """Run a step; print what it does, and the seconds that it took. Raises InstallFailure with what it printed."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as printed:
        with subprocess.Popen(command, cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT) as process:
            code = _awaited(process, what, began)
        print(f"{_line(what, began)}{'' if code == 0 else '  failed'}", flush=True)
        if code:
            printed.seek(0)
            raise InstallFailure(f"{what}: {' '.join(command)} exited with {code}\n{printed.read()}")


def _awaited(process: "subprocess.Popen[bytes]", what: str, began: float) -> int:
    """Its exit code; a terminal sees meanwhile how long it has taken."""
    is_seen = sys.stdout.isatty()
    if not is_seen:
        print(f"       {what} ...", flush=True)
    while True:
        if is_seen:
            print(_line(what, began), end="", flush=True)
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            continue


def _line(what: str, began: float) -> str:
    start = "\r" if sys.stdout.isatty() else ""
    return f"{start}{time.monotonic() - began:4.0f} s {what}"


def check_links(home: Path, folder: Path) -> None:
    """Raises InstallFailure if a command of another installation would be replaced: its own tool removes it."""
    for name in COMMANDS:
        path = folder / name
        is_ours = path.is_symlink() and path.readlink() == home / "bin" / name
        if os.path.lexists(path) and not is_ours:
            raise InstallFailure(
                f"{path} is there, and not from this command: remove it (uv tool uninstall dra-scheduler, "
                f"pipx uninstall dra-scheduler, or rm), or choose another PREFIX"
            )


def link(home: Path, folder: Path) -> None:
    """Link the commands, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        path = folder / name
        path.unlink(missing_ok=True)
        path.symlink_to(home / "bin" / name)


def next_steps(folder: Path, environment: Mapping[str, str]) -> Sequence[str]:
    """What to type next: first what makes a shell find the command, if it does not."""
    found = shutil.which("dra", path=environment.get("PATH", ""))
    here = folder / "dra"
    lines = []
    if found is None:
        lines = [f"{folder} is not on the PATH. Add this line to ~/.bashrc or ~/.zshrc, and open a new shell:"]
        lines += [f'  export PATH="{folder}:$PATH"']
    elif Path(found) != here:
        lines = [f"The PATH has another dra first: {found}. Remove it, or put {folder} before it."]
    command = "dra" if found and Path(found) == here else str(here)
    return [*lines, "Next:", f"  {command} explain research/wish manifests/examples/fleet", f"  {command} --help"]


if __name__ == "__main__":
    main()
