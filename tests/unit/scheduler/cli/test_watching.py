"""Output that is followed: what is printed again, and what a terminal is sent."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from scheduler.cli.ending import stop
from scheduler.cli.watching import PrintedText, Screen, cut, follow, frame_of, rewritten
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.manifests import a_cluster


def showing(*texts: str) -> Callable[[], None]:
    """Prints one text after the other; an empty one is an error."""
    left: Iterator[str] = iter(texts)

    def show() -> None:
        text = next(left)
        click.echo("reading", err=True)
        if not text:
            stop("the server is away")
        click.echo(text)

    return show


def until(frames: int) -> Callable[[float], None]:
    """A clock that ends the command after so many frames."""
    waits = iter(range(1, frames + 1))

    def wait(_seconds: float) -> None:
        if next(waits) == frames:
            raise KeyboardInterrupt

    return wait


def followed(*texts: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        follow(showing(*texts), 5, until(len(texts)))


def test_a_frame_is_what_was_printed_and_how_it_ended() -> None:
    assert frame_of(showing("a")) == PrintedText("a", "reading")
    assert frame_of(showing("")) == PrintedText("", "reading\ndra: the server is away", is_whole=False)


def test_without_a_terminal_only_what_differs_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    followed("one", "one", "two", "two")
    told = capsys.readouterr()
    assert told.out == "one\n\ntwo\n"
    assert told.err == "reading\n"


def test_what_fails_later_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    followed("one", "", "", "two")
    told = capsys.readouterr()
    assert told.out == "one\n\ntwo\n"
    assert told.err == "reading\nreading\ndra: the server is away\nreading\n"


def test_what_fails_at_first_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        follow(showing(""), 5, until(1))
    assert (end.value.code, "the server is away" in capsys.readouterr().err) == (2, True)


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


def test_a_terminal_is_given_back_when_the_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(output, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", output)
    followed("one", "two")
    assert output.getvalue().endswith("\x1b[?1049l\x1b[?25htwo\n")


@pytest.mark.parametrize("options", [(), ("-o", "json")])
def test_only_a_live_cluster_is_followed_and_as_a_table(tmp_path: Path, options: tuple[str, ...]) -> None:
    paths = () if options else (saved(tmp_path, *a_cluster()),)
    run = dra("status", "--watch", *options, *paths)
    assert (run.code, run.out) == (2, "")
    assert "--watch follows a live cluster as a table: it cannot be combined with PATH and -o." in run.err
