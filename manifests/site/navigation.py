# ruff: noqa: INP001 - mkdocs loads it by its path
"""The navigation of the site is the list in docs/index.md, by its headings; runbooks and decisions follow their pages.

Links to files outside docs/, which a reader of the repository follows, become the names of the files.
"""

import re
from pathlib import Path

Navigation = list[str | dict[str, "str | Navigation"]]

FOLDERS = {"Run it in a cluster": ("Runbooks", "runbooks"), "Extend": ("Decisions", "adr")}
"""Folders whose pages stand in a group, under a title."""

_HEADING = re.compile(r"^## (.*)$")
_ITEM = re.compile(r"^- \[(.*?)\]\(([\w-]+\.md)\)")
_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?:[A-Z]+\.md|scheduler/[\w/]+\.py)\)")


def on_config(config: dict[str, object]) -> dict[str, object]:
    """Called by mkdocs: gives it the navigation."""
    config["nav"] = navigation(Path(str(config["docs_dir"])))
    return config


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by mkdocs for each page: its text as the site has it."""
    return _OUTSIDE.sub(r"\1", markdown)


def navigation(docs: Path) -> Navigation:
    """The groups of docs/index.md with their pages."""
    groups: dict[str, Navigation] = {}
    for line in (docs / "index.md").read_text().splitlines():
        if found := _HEADING.match(line):
            groups[found[1]] = []
        elif found := _ITEM.match(line):
            [*groups.values()][-1].append({found[1]: found[2]})
    for group, (title, folder) in FOLDERS.items():
        pages = sorted((docs / folder).glob("*.md"))
        groups[group].append({title: [str(path.relative_to(docs)) for path in pages]})
    tabs: Navigation = ["index.md"]
    tabs.extend({title: pages} for title, pages in groups.items())
    return tabs
