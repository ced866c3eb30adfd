"""`make messages`: the list holds every message once, and nothing that is no message."""

from collections.abc import Sequence

import pytest

from tests.messages.run import listed, messages

SOURCE = '''
"""A docstring of two words."""
import re

PATTERN = re.compile("two words")
WORD = "one"


def told(name: str) -> str:
    """Another docstring here."""
    if not name:
        return "the name is missing"
    return f"there is no node {name!r}" "; did you mean it?"
'''


@pytest.fixture(scope="module")
def every_line() -> Sequence[str]:
    return list(listed())


def test_messages_are_told_as_their_source_has_them() -> None:
    assert [message for _, message in sorted(messages(SOURCE))] == [
        "the name is missing",
        "there is no node {name}; did you mean it?",
    ]


def test_every_room_is_read_and_no_message_is_listed_twice(every_line: Sequence[str]) -> None:
    told = [line.partition(": ")[2] for line in every_line]
    assert len(set(told)) == len(told)
    assert {line.partition("/")[0] for line in every_line} == {"allocator", "cel", "scheduler"}
    assert "no single change that makes it fit was found" in told


def test_messages_have_no_words_that_had_to_be_read_twice(every_line: Sequence[str]) -> None:
    odd = ("which compares to nothing", "stands for resources", "of 1 fields", "find nothing", "spread by them")
    assert [line for line in every_line for one in odd if one in line] == []
