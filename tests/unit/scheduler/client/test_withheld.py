"""Calls that may be sent only while something holds: asked at the last moment, whatever was waited for before."""

import asyncio
from pathlib import Path

import pytest

from scheduler.client.connection import Connection
from scheduler.client.errors import CallFailed, Withheld
from tests.unit.scheduler.client.answering import Requests, answer, connected


async def put(connection: Connection) -> object:
    return await connection.request("PUT", "/a", body={"a": 1})


async def failed(call: asyncio.Task[object]) -> CallFailed:
    with pytest.raises(CallFailed) as found:
        await call
    return found.value


def test_call_that_may_not_be_sent_is_not_and_one_that_may_is(tmp_path: Path) -> None:
    allowed = [False]

    async def calls() -> tuple[CallFailed, CallFailed, object, int]:
        async with connected(tmp_path) as (connection, requests):
            guarded = connection.only_while(lambda: allowed[0])
            write = await failed(asyncio.create_task(put(guarded)))
            read = await failed(asyncio.create_task(guarded.request("GET", "/a")))
            allowed[0] = True
            third = asyncio.create_task(put(guarded))
            answer(await requests.next(), body={"third": True})
            return write, read, await third, requests.waiting

    write, read, third, waiting = asyncio.run(calls())
    assert isinstance(write, Withheld)
    assert isinstance(read, Withheld)
    assert not write.is_ambiguous
    assert str(write) == "PUT /a: not sent: this process does not lead"
    assert (third, waiting) == ({"third": True}, 0)


def test_call_that_may_no_more_be_sent_once_its_turn_has_come_is_not(tmp_path: Path) -> None:
    async def waited() -> tuple[CallFailed, object, int]:
        is_allowed = True
        async with connected(tmp_path, calls=1) as (connection, requests):
            first = asyncio.create_task(put(connection))
            held = await requests.next()
            second = asyncio.create_task(put(connection.only_while(lambda: is_allowed)))
            await asyncio.sleep(0)
            is_allowed = False
            answer(held, body={"first": True})
            return await failed(second), await first, requests.waiting

    error, first, waiting = asyncio.run(waited())
    assert isinstance(error, Withheld)
    assert (first, waiting) == ({"first": True}, 0)


def test_call_that_may_no_more_be_sent_once_it_has_a_connection_is_not(tmp_path: Path) -> None:
    """Asked when the call begins and again when its first byte is written: whatever stopped the process in between."""
    asked: list[bool] = []

    def may_send() -> bool:
        asked.append(not asked)
        return asked[-1]

    async def stopped() -> tuple[CallFailed, Requests]:
        async with connected(tmp_path) as (connection, requests):
            return await failed(asyncio.create_task(put(connection.only_while(may_send)))), requests

    error, requests = asyncio.run(stopped())
    assert "this process does not lead" in str(error)
    assert asked == [True, False]
    assert requests.waiting == 0


@pytest.mark.parametrize("status", [429, 401])
def test_call_that_may_no_more_be_sent_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """The server puts the first one off, or does not let it in, and another token is there by then."""
    monkeypatch.setattr("scheduler.client.connection._PUT_OFF_S", 0.0)
    token = tmp_path / "token"
    token.write_text("old")

    async def again() -> tuple[CallFailed, int]:
        is_allowed = True
        async with connected(tmp_path, tokenFile=str(token)) as (connection, requests):
            call = asyncio.create_task(put(connection.only_while(lambda: is_allowed)))
            first = await requests.next()
            is_allowed = False
            token.write_text("new")
            answer(first, status)
            return await failed(call), requests.waiting

    error, waiting = asyncio.run(again())
    assert isinstance(error, Withheld)
    assert waiting == 0


def test_calls_apart_are_withheld_as_those_that_they_are_apart_from(tmp_path: Path) -> None:
    async def withheld() -> CallFailed:
        async with connected(tmp_path) as (connection, _):
            return await failed(asyncio.create_task(put(connection.only_while(lambda: False).apart(1))))

    assert isinstance(asyncio.run(withheld()), Withheld)


def test_calls_apart_wait_for_no_others(tmp_path: Path) -> None:
    async def beside() -> tuple[object, object]:
        async with connected(tmp_path, calls=1) as (connection, requests):
            first = asyncio.create_task(put(connection))
            held = await requests.next()
            second = asyncio.create_task(put(connection.apart(1)))
            answer(await requests.next(), body={"second": True})
            answered = await second
            answer(held, body={"first": True})
            return answered, await first

    assert asyncio.run(beside()) == ({"second": True}, {"first": True})
