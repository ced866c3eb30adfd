"""docs/security.md names a test beside each threat, and each of them exists."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "security.md"
NO_TEST = {"trust", "the API server's own rule"}
"""What a row rests on that no test of ours can show."""


def rows() -> list[list[str]]:
    """The cells of each threat."""
    table = PAGE.read_text().partition("## Threats")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_page_has_threats() -> None:
    assert len(rows()) > 15
    assert all(len(row) == 4 for row in rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[1][:40])
def test_each_threat_has_a_test_that_exists(row: list[str]) -> None:
    named = re.findall(r"`([^`]+)`", row[3])
    assert named or row[3].rstrip(" |") in NO_TEST
    assert [name for name in named if not exists(name)] == []


def exists(name: str) -> bool:
    path, _, function = name.partition("::")
    tree = ast.parse((TESTS / path).read_text())
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)
