"""Builds the distribution, with the allocator's decision compiled by mypyc where the machine has a C compiler.

    DRA_COMPILE=0    do not compile
    DRA_COMPILE=1    fail where it cannot be compiled

An editable install is never compiled: what runs is what was edited. Both forms are built from the same sources and
pass the same tests. pip shows which one it built in the name of the wheel, and `dra --version` in its answer. All else
about the distribution is in pyproject.toml. Decision and figures: docs/adr/0003.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

_BUILDS = frozenset({"build", "bdist_wheel"})
"""Commands that make what is installed; the others read metadata, or install the sources themselves."""

_HOT = ("allocate", "bits", "candidates", "constraints", "gates", "memo", "model", "outcome")
_HOT_POLICIES = ("contract", "hardware", "fill_value", "fill_rollouts")
"""Not `whole_nodes`: an interpreted class, such as a policy of a user, cannot inherit from a compiled one."""

_HOT_ROOMS = ("cluster", "search", "features", "fleet")
"""Modules and rooms of `allocator` that a decision goes through."""


def _compiles() -> bool:
    wanted = os.environ.get("DRA_COMPILE")
    if _BUILDS.isdisjoint(sys.argv) or wanted == "0":
        return False
    return wanted == "1" or _has_compiler()


def _has_compiler() -> bool:
    """Whether there is a C compiler, and Python's headers for it."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, "-E", f"-I{sysconfig.get_path('include')}", "-x", "c", "-"]
    try:
        return subprocess.run(command, input=b"#include <Python.h>\n", capture_output=True, check=False).returncode == 0  # noqa: S603
    except OSError:
        return False


def _compiled() -> list[Extension]:
    from mypyc.build import mypycify

    hot = [str(path) for room in _HOT_ROOMS for path in sorted(Path("allocator", room).glob("*.py"))]
    # A build environment holds mypy alone: what it knows of other packages decides nothing in these modules.
    options = ["--config-file=", "--ignore-missing-imports"]
    policies = [f"allocator/policies/{name}.py" for name in _HOT_POLICIES]
    files = [*(f"allocator/{name}.py" for name in _HOT), *policies, *hot]
    # Higher levels take the C compiler up to twice as long, and no gain was measured (docs/adr/0003).
    found: list[Extension] = mypycify([*options, *files], opt_level="1", debug_level="0")
    return found


def _tagged(name: str) -> dict[str, dict[str, str]]:
    return {"bdist_wheel": {"build_number": name}}


if _compiles():
    print("dra-scheduler: compiling the allocator (DRA_COMPILE=0 does not)")  # noqa: T201 - `pip -v` shows it
    setup(ext_modules=_compiled(), options=_tagged("1compiled"))
else:
    print("dra-scheduler: not compiling the allocator")  # noqa: T201
    setup(options=_tagged("0pure"))
