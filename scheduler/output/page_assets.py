"""The style sheet of all pages, and the script of those with tables and a map."""

from importlib.resources import files

_ROOM = files("scheduler.output")

STYLE = _ROOM.joinpath("page.css").read_text(encoding="utf-8")
"""For light and dark screens, small ones, and paper."""

SCRIPT = _ROOM.joinpath("page.js").read_text(encoding="utf-8")
"""Draws the data that the page holds as JSON, and sorts and filters it."""
