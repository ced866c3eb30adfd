"""The names of the house: a file and a class are found by their names alone."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted(path for package in ("cel", "allocator", "scheduler") for path in (ROOT / package).rglob("*.py"))

SAME_ROLE = {
    *("program", "configuration", "metrics"),  # of each program for a cluster
    *("contract", "errors"),  # of each room
    *("allocate",),  # the function, and the subcommand that calls it
    *("device", "quantity", "semver"),  # the value, and how the API or CEL spells it
    *("admin_access", "extended_resources", "node_affinity", "node_allocatable_resources"),  # the same in Kubernetes
    *("volume_binding",),  # the plugin's filter, and its step of an attempt
}
"""Names that several rooms share because they mean the same there (docs/architecture.md)."""


def test_files_of_one_name_mean_the_same() -> None:
    rooms = defaultdict(list)
    for path in FILES:
        rooms[path.stem].append(str(path.relative_to(ROOT)))
    shared = {name: paths for name, paths in rooms.items() if len(paths) > 1 and name != "__init__"}
    assert {name: paths for name, paths in shared.items() if name not in SAME_ROLE} == {}
    assert shared.keys() == SAME_ROLE, "names that are no longer shared"


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
