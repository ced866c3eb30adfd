"""Builds the distribution: pure Python, or with DRA_COMPILE=1 with the decision compiled by mypyc.

Both are made of the same sources and pass the same tests; the compiled one takes about half the time. Compiling needs
a C compiler and mypy. All else about the distribution stands in pyproject.toml.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

_HOT = ("allocate", "gates", "memo", "model", "outcome", "results", "explain/cause", "policies/contract")
_HOT_ROOMS = ("cluster", "requests", "search", "features", "fleet")
"""Modules and rooms of `allocator` that a decision goes through."""


def _compiled() -> list[Extension]:
    if os.environ.get("DRA_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    hot = [str(path) for room in _HOT_ROOMS for path in sorted(Path("allocator", room).glob("*.py"))]
    found: list[Extension] = mypycify([*(f"allocator/{name}.py" for name in _HOT), *hot], opt_level="3")
    return found


setup(ext_modules=_compiled())
