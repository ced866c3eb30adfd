"""Log lines: text for a person at a terminal, one JSON object per line otherwise.

Modules use the standard library's logging, with the subject of a line in `extra`, such as `extra={"pod": pod, "node":
node}`. Other libraries are logged from level warning on, whatever our own level: some would print bodies and headers.
Anything that looks like a token is redacted in every line.
"""

import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

import orjson

from scheduler.runtime.configuration import LogFormat, LogLevel
from scheduler.terminal_text import json_of, printable

OURS = ("allocator", "cel", "scheduler")

_SECRET = re.compile(r"([Bb]earer |[Tt]oken=|[Pp]assword=)[^\s\"',;]{8,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+")
_SIGNS = ("earer ", "oken=", "assword=", "eyJ")  # looked for first: the expression takes as long as all the rest
_BLOT = r"\g<1><hidden>"
_PLAIN = logging.Formatter()
_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(chosen: LogFormat, level: LogLevel, stream: TextIO) -> None:
    """From now on all log lines go to the stream, and nowhere else."""
    is_text = chosen is LogFormat.TEXT or (chosen is LogFormat.AUTO and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLine() if is_text else JsonLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    for name in OURS:
        logging.getLogger(name).setLevel(level.value.upper())


class TextLine(logging.Formatter):
    """`TIME LEVEL MODULE: MESSAGE field=value ...`, and a traceback below, indented, where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        message = _one_line(record.getMessage())
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {message}{fields}"
        # Others may have written the text of an exception: indented, no line of it begins another entry.
        below = [f"  {printable(one)}" for one in _traceback(record).split("\n") if one]
        return hidden("\n".join([line, *below]))


class JsonLine(logging.Formatter):
    """An object with time, level, logger, message, the line's own fields, and the traceback as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        line = {**fields, "message": record.getMessage(), **_fields(record)}
        if trouble := _traceback(record):
            line["error"] = trouble
        return hidden(json_of(line, orjson.OPT_NON_STR_KEYS, default=str))


def hidden(text: str) -> str:
    """The text without what looks like a token or a password."""
    return _SECRET.sub(_BLOT, text) if any(sign in text for sign in _SIGNS) else text


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    """What was given as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _traceback(record: logging.LogRecord) -> str:
    parts = [_PLAIN.formatException(record.exc_info)] if record.exc_info else []
    return "\n".join([*parts, record.stack_info] if record.stack_info else parts)


def _shown(value: object) -> str:
    """The value, quoted where it would not be one word."""
    text = _one_line(str(value))
    return text if text and not re.search(r"[\s=\"]", text) else orjson.dumps(text).decode()


def _one_line(text: str) -> str:
    """The text without line ends: a line is one entry, whoever wrote its words."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
