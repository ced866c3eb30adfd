"""Log lines are one entry each, say what they are about, and hide what nobody should read."""

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest

from scheduler.runtime.configuration import LogFormat, LogLevel
from scheduler.runtime.logs import OURS, JsonLine, TextLine, configure, hidden

OWN = logging.getLogger("scheduler.live.test")
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"  # noqa: S105 - of nobody


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, show = logging.getLogger(), warnings.showwarning
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(capture=False)
    warnings.showwarning = show
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.NOTSET)


def logged(chosen: LogFormat = LogFormat.JSON, level: LogLevel = LogLevel.INFO) -> io.StringIO:
    stream = io.StringIO()
    configure(chosen, level, stream)
    return stream


def a_record(message: str, **fields: object) -> logging.LogRecord:
    record = logging.makeLogRecord({"name": "scheduler.live", "levelname": "INFO", "msg": message, "created": 0.25})
    vars(record).update(fields)
    return record


def test_text_is_for_a_terminal_and_json_for_the_rest() -> None:
    for stream, begins in ((Terminal(), "2"), (io.StringIO(), "{")):
        configure(LogFormat.AUTO, LogLevel.INFO, stream)
        OWN.info("here")
        assert stream.getvalue().startswith(begins)


def test_json_line_has_the_fields_it_was_given() -> None:
    stream = logged()
    OWN.warning("bound %s", "it", extra={"pod": "a/b", "devices": ["x"], "took_s": 0.5})
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    own = {"pod": "a/b", "devices": ["x"], "took_s": 0.5}
    assert found == {"level": "warning", "logger": OWN.name, "message": "bound it", **own}


def test_text_line_reads_as_a_sentence() -> None:
    line = TextLine().format(a_record("bound", pod="a/b", why="two words", nothing=""))
    assert line == '1970-01-01T00:00:00.250Z INFO    scheduler.live: bound pod=a/b why="two words" nothing=""'


def test_what_others_wrote_makes_no_entries_and_steers_no_terminal() -> None:
    forged = 'no\n2026 ERROR all is "well" \x1b[31m \x9b31m \N{RIGHT-TO-LEFT OVERRIDE}'
    text, line = (one.format(a_record(forged, said=forged)) for one in (TextLine(), JsonLine()))
    assert text.isprintable()
    assert line.isprintable()
    assert json.loads(line)["message"] == forged


def test_traceback_follows_its_line() -> None:
    stream = logged()
    try:
        raise KeyError("gone")  # noqa: TRY301 - it is what is logged
    except KeyError:
        OWN.exception("failed")
    found = json.loads(stream.getvalue())
    assert found["error"].endswith("KeyError: 'gone'")
    assert found["message"] == "failed"


def test_what_others_wrote_into_an_exception_begins_no_entry_and_steers_no_terminal() -> None:
    stream = logged(LogFormat.TEXT)
    try:
        raise ValueError("no\n2026 ERROR all is well \x1b[31m \x9b31m \N{LINE SEPARATOR}")  # noqa: TRY301
    except ValueError:
        OWN.exception("failed")
    first, *below = stream.getvalue().removesuffix("\n").split("\n")
    assert first.endswith(f" {OWN.name}: failed")
    assert all(line.startswith("  ") and line.isprintable() for line in below)
    assert below[-1] == r"  2026 ERROR all is well \x1b[31m \x9b31m \u2028"


def test_level_is_for_our_modules_and_others_are_heard_from_warnings_on() -> None:
    stream = logged(level=LogLevel.DEBUG)
    OWN.debug("ours")
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: secret")
    logging.getLogger("aiohttp").warning("theirs")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["ours", "theirs"]


def test_quieter_level_is_kept() -> None:
    stream = logged(level=LogLevel.ERROR)
    OWN.warning("not heard")
    assert stream.getvalue() == ""


def test_what_looks_like_a_secret_is_hidden() -> None:
    assert hidden("Authorization: Bearer abc.def-1") == "Authorization: Bearer <hidden>"
    assert hidden(f"the answer had {TOKEN} in it") == "the answer had <hidden> in it"
    assert hidden("https://h/p?token=abcdefgh") == "https://h/p?token=<hidden>"
    assert hidden("a bearer of news, a token") == "a bearer of news, a token"
    stream = logged(LogFormat.TEXT)
    OWN.info("sent", extra={"headers": {"Authorization": f"Bearer {TOKEN}"}})
    assert TOKEN not in stream.getvalue()


def test_configured_again_nothing_is_written_twice() -> None:
    first, second = logged(), logged()
    OWN.info("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1
