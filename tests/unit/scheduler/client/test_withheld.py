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
