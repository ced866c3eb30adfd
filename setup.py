"""Builds the distribution: pure Python, or with DRA_COMPILE=1 with the decision compiled by mypyc.

Both are made of the same sources and pass the same tests; the compiled one takes about half the time. Compiling needs
a C compiler and mypy. All else about the distribution stands in pyproject.toml.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

_HOT = (
    *("allocate", "constraints", "failures", "feature", "gates", "model", "node_affinity", "node_view", "outcome"),
    *("policy", "pool_map", "pools", "reads", "refusal", "requests", "results", "rules", "search", "selectors"),
    *("snapshot", "usage", "fleet", "contents", "shapes", "node_index", "slice_index", "occupancy", "unable"),
)
"""Modules of `allocator` that a decision goes through; so does all of `allocator.features`."""


def _compiled() -> list[Extension]:
    if os.environ.get("DRA_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    features = sorted(str(path) for path in Path("allocator/features").glob("*.py"))
    found: list[Extension] = mypycify([*(f"allocator/{name}.py" for name in _HOT), *features], opt_level="3")
    return found


setup(ext_modules=_compiled())
