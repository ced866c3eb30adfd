"""Links between pages lead somewhere: the file is there, and so is the heading."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def links(text: str) -> Iterator[tuple[str, str]]:
    """File and heading of each link; empty where the link has none."""
    yield from LINK.findall(CODE.sub("", text))


def headings(page: Path) -> set[str]:
    """The headings as links spell them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def is_dead(page: Path, name: str, heading: str) -> bool:
    target = page.parent / name if name else page
    return not target.exists() or (bool(heading) and heading not in headings(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in links(page.read_text()) if is_dead(page, *link)] == []


def test_dead_links_are_noticed() -> None:
    found = list(links("[a](docs/guard.md#no-such-heading) [b](nothing.md) [c](docs/guard.md) `[d](e.md)`"))
    assert [is_dead(ROOT / "README.md", *link) for link in found] == [True, True, False]
