"""The cases of `language/`: expressions feature by feature, one a line, in files named as in CEL's own specification.

`# words` opens a feature. A line is an expression that holds on DEVICE; `fails | ` goes before one that fails while it
runs, `refused | ` before one that does not compile.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.differential.peer import Json

FOLDER: Final = Path(__file__).parent / "language"
KINDS: Final = {"holds": "", "fails": "runtime", "refused": "compile"}

DEVICE: Final[Json] = {
    "driver": "d.io",
    "attributes": {
        "i": {"int": 3},
        "s": {"string": "ünï"},
        "b": {"bool": True},
        "v": {"version": "1.2.3-rc.1"},
        "l": {"ints": [1, 2, 3]},
        "other.io/s": {"string": "x"},
    },
    "capacity": {"m": {"value": "8Gi"}},
}


class Case(NamedTuple):
    """An expression of a feature; phase: of the error in which it ends, empty where it is true."""

    feature: str
    expression: str
    phase: str


def cases() -> Iterator[Case]:
    """All of them, in order."""
    for path in sorted(FOLDER.glob("*.cel")):
        feature = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                feature = f"{path.stem}: {line[2:]}"
            elif line:
                yield _case(feature, line)


def _case(feature: str, line: str) -> Case:
    kind, separator, expression = line.partition(" | ")
    if separator and kind in KINDS:
        return Case(feature, expression, KINDS[kind])
    return Case(feature, line, "")
