"""Output that is followed: what is printed again, and what a terminal is sent."""

import io
import re
import sys
from pathlib import Path

import pytest

from scheduler.cli import watching
from scheduler.cli.watching import PlainUpdates, PrintedText, Screen, cut, rewritten, updates_of
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.manifests import a_cluster


def test_without_a_terminal_only_what_differs_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainUpdates() as printed:
        for text, notes in (("one", ""), ("one", "lost\nold"), ("one", "lost"), ("two", "lost"), ("two", "back\x1b")):
            printed.show(PrintedText(text, notes))
    told = capsys.readouterr()
    assert told.out == "one\n\ntwo\n"
    assert told.err == "lost\nold\nback\\x1b\n"


def test_a_terminal_is_sent_the_lines_that_change() -> None:
    assert list(rewritten(["a", "b", "c"], ["a", "x"])) == ["\x1b[2;1Hx\x1b[K", "\x1b[3;1H\x1b[K"]
    assert list(rewritten(["a"], ["a"])) == []


def test_lines_are_cut_to_the_terminal() -> None:
    assert cut(["abcdef", "b"], 3, 2) == ["abc", "b"]
    assert cut(["a", "b", "c", "d"], 80, 3) == ["a", "b", "... 2 more lines"]


def sent(*frames: PrintedText, has_colour: bool = True) -> str:
    output = io.StringIO()
    with Screen(output, has_colour=has_colour) as screen:
        for frame in frames:
            screen.show(frame)
    return output.getvalue()


def test_a_screen_marks_what_has_changed_once_and_leaves_the_last_text() -> None:
    text = sent(PrintedText("a\nb", ""), PrintedText("a\nc", ""), PrintedText("a\nc", ""))
    assert text.startswith("\x1b[?1049h\x1b[?25l\x1b[2J")
    assert text.count("\x1b[1m") == 1
    assert "\x1b[2;1H\x1b[1mc\x1b[0m\x1b[K\x1b[2;1Hc\x1b[K" in text
    assert text.endswith("\x1b[?1049l\x1b[?25ha\nc\n")


def test_without_colour_nothing_is_marked() -> None:
    assert "\x1b[1m" not in sent(PrintedText("a", ""), PrintedText("b", ""), has_colour=False)


def test_notes_and_how_to_end_stay_in_sight_below_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_size_of", lambda _: (20, 6))
    text = sent(PrintedText("\n".join("abcdefgh"), "connection lost at 10:00:00"))
    rows = [row.partition("\x1b")[0] for row in re.split(r"\x1b\[\d+;1H", text)[1:]]
    assert rows == ["a", "b", "... 6 more lines", "", "connection lost at 1", "Ctrl-C ends"]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_terminal_with_few_rows_is_not_written_beyond(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(watching, "_size_of", lambda _: (20, rows))
    text = sent(PrintedText("a\nb\nc", "note"))
    assert max(map(int, re.findall(r"\x1b\[(\d+);1H", text))) == rows
    assert "Ctrl-C ends" in text


def test_only_a_terminal_that_can_be_drawn_on_is_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(updates_of(has_colour=True), PlainUpdates)
    monkeypatch.setattr(output, "isatty", lambda: True)
    assert isinstance(updates_of(has_colour=True), Screen)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(updates_of(has_colour=True), PlainUpdates)


def test_interval_is_of_what_is_followed() -> None:
    run = dra("status", "--interval", "5")
    assert (run.code, run.out) == (2, "")
    assert "--interval says how often --watch prints: use it with --watch." in run.err


@pytest.mark.parametrize("options", [(), ("-o", "json"), ("--overlay", "x.yaml")])
def test_only_a_live_cluster_is_followed_and_as_a_table(tmp_path: Path, options: tuple[str, ...]) -> None:
    paths = () if options else (saved(tmp_path, *a_cluster()),)
    run = dra("status", "--watch", *options, *paths)
    assert (run.code, run.out) == (2, "")
    assert "--watch follows a live cluster as a table: it cannot be combined with PATH, --overlay and -o." in run.err
