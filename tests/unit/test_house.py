"""The names of the house: a file and a class are found by their names alone, and no name needs a private dictionary."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text())
    for package in ("cel", "allocator", "scheduler")
    for path in sorted((ROOT / package).rglob("*.py"))
}

SAME_ROLE = {
    *("program", "configuration"),  # of each program for a cluster
    *("contract", "errors"),  # of each room
    *("allocate", "audit", "lint"),  # the function or the rules, and the subcommand that calls them
    *("device", "quantity", "semver"),  # the value, and how the API or CEL spells it
    *("node_affinity", "pod_resources"),  # the same in Kubernetes
    *("claims", "pod", "status", "volumes"),  # each room's side of the same objects
}
"""Names that several rooms share because they mean the same there (docs/architecture.md)."""

PRIVATE = re.compile(
    r"(lens|serial|piece|part|body|bodies|content|base|settle|settled|turn|verdict|patience|contention|mirror|observed"
    r"|hollow|tell|told)s?"
)
"""Words that mean nothing in particular, or nothing outside of this project (docs/glossary.md)."""

OF_THE_FIELD = {
    ("scheduler/client/", "body content"),  # of an HTTP message
    ("scheduler/extender/", "body"),
    ("scheduler/guard/", "body"),
    ("scheduler/client/watch_states.py", "body"),
    ("scheduler/reporting.py", "body content"),
    ("scheduler/runtime/server.py", "body"),
    ("scheduler/runtime/server.py", "body"),
    ("scheduler/input/documents.py", "content"),  # of a file
    ("scheduler/runtime/tls.py", "content"),
    ("scheduler/cli/run_scenarios.py", "content"),
    ("scheduler/kube_scheduler/configuration.py", "content contention"),  # contentType, enableContentionProfiling
    ("allocator/api/allocation.py", "observed"),  # observedGeneration
    ("scheduler/core_v1/pod_status.py", "observed"),
    ("scheduler/offline/pod_explanation.py", "verdict"),  # of `dra explain`
    ("scheduler/output/explanation_report.py", "verdict"),
    ("scheduler/output/explanation_list.py", "verdict"),
    ("scheduler/output/table.py", "verdict"),
    ("scheduler/output/placement_report.py", "verdict"),
    ("scheduler/output/data_page.py", "body"),  # of a page
    ("cel/ext/cidr.py", "base"),  # of a network
    ("cel/ext/format.py", "base"),  # base64
}
"""Files and rooms in which such a word is the usual one."""


def test_files_of_one_name_mean_the_same() -> None:
    rooms = defaultdict(list)
    for path in SOURCES:
        rooms[Path(path).stem].append(path)
    shared = {name: paths for name, paths in rooms.items() if len(paths) > 1 and name != "__init__"}
    assert {name: paths for name, paths in shared.items() if name not in SAME_ROLE} == {}
    assert shared.keys() == SAME_ROLE, "names that are no longer shared"


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_names_have_no_private_words() -> None:
    found = [
        (path, line, name)
        for path, tree in SOURCES.items()
        for line, name in _names(tree)
        for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
        if PRIVATE.fullmatch(word.lower()) and not _is_usual(path, word.lower())
    ]
    assert found == []


def _is_usual(path: str, word: str) -> bool:
    return any(path.startswith(place) and word.rstrip("s") in words.split() for place, words in OF_THE_FIELD)


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What a file defines: classes, functions with their parameters, and typed fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.lineno, node.target.id


def test_no_two_aliases_of_types_have_one_name() -> None:
    places = defaultdict(list)
    for path, tree in SOURCES.items():
        for line, name in _aliases(tree):
            places[name.lstrip("_")].append(f"{path}:{line}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_sets_of_devices_and_of_nodes_have_one_home() -> None:
    homes = {path for path, tree in SOURCES.items() for _, name in _aliases(tree) if name == "Mask"}
    homes |= {
        path
        for path, tree in SOURCES.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "bits"
    }
    assert homes == {"allocator/bits.py"}


def _aliases(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names that a module gives to types; those of type parameters mean something in its own signatures alone."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            is_parameter = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in ("TypeVar", "ParamSpec")
            if isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z]+[a-z]\w*", target.id) and not is_parameter:
                yield node.lineno, target.id


PLURAL_BY_HAND = re.compile(r"""== 1 else f?["'](e?s|are|have|are\b.*)["']|if len\(.*\) > \w+ else "["']?.*more""")
"""A number's noun or verb, or the rest of a list, that is not left to allocator/words.py."""


def test_words_for_numbers_and_lists_have_one_home() -> None:
    found = [
        f"{path}: {line.strip()}"
        for path in SOURCES
        if path != "allocator/words.py"
        for line in (ROOT / path).read_text().splitlines()
        if PLURAL_BY_HAND.search(line)
    ]
    assert found == []


ONE_FILE_EACH = ("scheduler/plugins/", "allocator/features/", "cel/ext/")
OF_ANOTHER_SIZE = {
    "allocator/search/backtracking.py": "one search with its twins, bounds and memory: nobody reads a half of it",
}
LINES_LEAST, LINES_MOST = 40, 650
MOST_FILES, MOST_ROOMS = 400, 38


def test_files_are_neither_confetti_nor_too_long_to_read() -> None:
    lines = {
        path: len((ROOT / path).read_text().splitlines())
        for path in SOURCES
        if Path(path).name not in ("__init__.py", "__main__.py")
    }
    others = {path for path, number in lines.items() if not _least(path) <= number <= LINES_MOST}
    assert others == OF_ANOTHER_SIZE.keys()


def _least(path: str) -> int:
    return 0 if path.startswith(ONE_FILE_EACH) else LINES_LEAST


def test_a_newcomer_can_hold_the_number_of_files_and_rooms() -> None:
    assert len(SOURCES) <= MOST_FILES
    assert len({Path(path).parent for path in SOURCES}) <= MOST_ROOMS


def test_folders_of_tests_are_named_after_what_they_test() -> None:
    places = {path.removesuffix(".py") for path in SOURCES} | {str(Path(path).parent) for path in SOURCES}
    unit = [folder for package in ("cel", "allocator", "scheduler") for folder in _folders(f"tests/unit/{package}")]
    assert [name for name in unit if name.removeprefix("tests/unit/") not in places] == []
    names = {Path(place).name for place in places}
    assert [name for name in _folders("tests/properties") if Path(name).name not in names] == []


def _folders(top: str) -> list[str]:
    return [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / top).rglob("*/"))
        if path.name != "__pycache__" and any(path.glob("*.py"))
    ]


EMPTY_NAMES = {"one", "found"}
"""They say of a local only that there is something; in a comprehension it is defined beside its only use."""


def test_locals_say_what_they_are() -> None:
    named = [
        f"{path}:{node.lineno} {name}"
        for path, tree in SOURCES.items()
        if path.count("/") > 1
        for node, name in _bound(tree)
        if name in EMPTY_NAMES
    ]
    assert named == []


def _bound(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.pattern, str]]:
    """What is assigned, is the target of a loop, or captures a part of a pattern; comprehensions aside."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id
        elif isinstance(node, ast.MatchAs) and node.name:
            yield node, node.name
        if not isinstance(node, ast.comprehension) and not _is_field(tree, node):
            yield from _bound(node)


def _is_field(holder: ast.AST, node: ast.AST) -> bool:
    return isinstance(holder, ast.ClassDef) and isinstance(node, ast.AnnAssign)


def test_fields_of_large_data_classes_are_described_where_they_stand() -> None:
    described = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in SOURCES.items()
        if path.count("/") > 1
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and _is_data(node)
        for fields in (
            [s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)],
        )
        if len(fields) > 4 and re.search(rf"\b({'|'.join(fields)}): ", ast.get_docstring(node) or "")
    ]
    assert described == []


def _is_data(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list) or any(
        ast.unparse(base) == "NamedTuple" for base in node.bases
    )
