"""What counts as a call that was not answered in time, and what as one that was not even sent."""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from scheduler.client import connection as connection_module
from scheduler.client import credentials
from scheduler.client.connection import TICKS, Connection, TimeLimit, connect
from scheduler.client.errors import Unanswered
from tests.unit.scheduler.client.answering import Beside, answer, beside, connected, kubeconfig
from tests.unit.scheduler.loops import LOOPS, Loop

SOON_S = 0.08
"""Of a call in these tests, so short that a loop can be held up for longer."""


async def written(connection: Connection, timeout_s: float = SOON_S) -> object:
    return await connection.request("PUT", "/a", body={}, timeout_s=timeout_s)


async def unanswered(call: Awaitable[object]) -> Unanswered:
    with pytest.raises(Unanswered) as error:
        await call
    return error.value


class Jumping(asyncio.SelectorEventLoop):
    """A loop whose clock is set forward: as if it had been held up for so long."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


async def until_it_ends(limit: TimeLimit, turns: list[float], held_up_s: float, sent_at: int = -1) -> None:
    """Count the turns that the loop has, each so late."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Jumping)
    with limit:
        while True:
            if len(turns) == sent_at:
                limit.sent()
            loop.ahead_s += held_up_s
            turns.append(loop.ahead_s)
            await asyncio.sleep(0)


async def turns_within(limit_s: float, held_up_s: float, sent_at: int = -1) -> int:
    turns: list[float] = []
    with pytest.raises(TimeoutError):
        await until_it_ends(TimeLimit(limit_s, limit_s), turns, held_up_s, sent_at)
    return len(turns)


@pytest.mark.parametrize("held_up_s", [3.0, 1000.0])
def test_time_that_the_loop_did_not_have_is_not_counted(held_up_s: float) -> None:
    with asyncio.Runner(loop_factory=Jumping) as runner:
        assert runner.run(turns_within(4.0, held_up_s)) >= TICKS


@pytest.mark.parametrize("sent_at", [0, 1, TICKS - 1])
def test_time_counts_anew_from_when_the_call_is_sent(sent_at: int) -> None:
    with asyncio.Runner(loop_factory=Jumping) as runner:
        assert sent_at + TICKS <= runner.run(turns_within(8.0, 1.0, sent_at)) <= 2 * (sent_at + TICKS + 2)


def test_time_that_is_up_leaves_the_task_as_it_was() -> None:
    async def cancellations() -> int:
        await turns_within(4.0, 1.0)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    with asyncio.Runner(loop_factory=Jumping) as runner:
        assert runner.run(cancellations()) == 0


def test_call_that_is_cancelled_is_not_late() -> None:
    async def cancelled() -> bool:
        task = asyncio.create_task(until_it_ends(TimeLimit(4.0, 4.0), [], 0.0))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    with asyncio.Runner(loop_factory=Jumping) as runner:
        assert runner.run(cancelled())


@LOOPS
def test_answer_that_lies_ready_after_the_loop_was_held_up_is_read(loop: Loop, tmp_path: Path) -> None:
    async def found(server: Beside) -> object:
        async with connect(kubeconfig=kubeconfig(tmp_path, server.port)) as connection:
            call = asyncio.create_task(written(connection))
            await asyncio.to_thread(server.has_come.wait)
            server.answer()
            hold_up(2 * SOON_S)
            await asyncio.sleep(0)
            hold_up(2 * SOON_S)
            return await call

    with beside() as server, asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(found(server)) == {"kind": "Pod"}


def hold_up(duration_s: float) -> None:
    """What a long decision does to the loop."""
    until = time.monotonic() + duration_s
    while time.monotonic() < until:
        pass


@LOOPS
def test_write_that_was_sent_and_not_answered_may_have_been_carried_out(loop: Loop, tmp_path: Path) -> None:
    async def late() -> Unanswered:
        async with connected(tmp_path) as (connection, _):
            return await unanswered(written(connection))

    with asyncio.Runner(loop_factory=loop) as runner:
        error = runner.run(late())
    assert error.is_ambiguous
    assert str(error) == "PUT /a: no answer in time"


@LOOPS
def test_write_that_waits_for_its_turn_was_certainly_not_carried_out(loop: Loop, tmp_path: Path) -> None:
    async def waited() -> tuple[Unanswered, int, object]:
        async with connected(tmp_path, calls=1) as (connection, requests):
            first = asyncio.create_task(written(connection, timeout_s=60.0))
            held = await requests.next()
            error = await unanswered(written(connection))
            answer(held, body={"first": True})
            return error, requests.waiting, await first

    with asyncio.Runner(loop_factory=loop) as runner:
        error, sent, first = runner.run(waited())
    assert not error.is_ambiguous
    assert str(error) == "PUT /a: not sent: no connection, or no credentials, in time"
    assert (sent, first) == (0, {"first": True})


@LOOPS
def test_connection_that_is_not_made_in_time_leaves_nothing_open(loop: Loop, tmp_path: Path) -> None:
    async def refused(port: int) -> Unanswered:
        async with connect(kubeconfig=kubeconfig(tmp_path, port, scheme="https")) as connection:
            return await unanswered(written(connection))

    with socket.create_server(("127.0.0.1", 0)) as silent, asyncio.Runner(loop_factory=loop) as runner:
        assert not runner.run(refused(silent.getsockname()[1])).is_ambiguous


@LOOPS
def test_so_many_calls_as_are_allowed_are_under_way_together(loop: Loop, tmp_path: Path) -> None:
    async def together(calls: int) -> list[object]:
        async with connected(tmp_path, calls=calls) as (connection, requests):
            writes = [asyncio.create_task(written(connection, timeout_s=60.0)) for _ in range(calls)]
            came = [await requests.next() for _ in writes]
            for one in came:
                answer(one)
            return await asyncio.gather(*writes)

    with asyncio.Runner(loop_factory=loop) as runner:
        assert len(runner.run(together(150))) == 150


def test_credentials_that_are_refused_are_reported_until_they_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "LASTS_S", 0.0)

    async def reported() -> list[str]:
        async with connected(tmp_path, token="t") as (connection, requests):  # noqa: S106 - of no server
            found = [connection.refused]
            for status in (401, 200):
                call = asyncio.ensure_future(written(connection, timeout_s=60.0))
                answer(await requests.next(), status)
                await asyncio.wait([call])
                found.append(connection.refused)
                call.exception()
            return found

    assert asyncio.run(reported()) == ["", "the API server does not accept them", ""]


def test_call_that_needs_new_credentials_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    async def hung() -> Unanswered:
        async with connected(tmp_path, tokenFile=str(tmp_path / "token")) as (connection, requests):
            (tmp_path / "token").unlink()
            os.mkfifo(tmp_path / "token")
            call = asyncio.ensure_future(written(connection))
            answer(await requests.next(), 401)
            return await unanswered(call)

    (tmp_path / "token").write_text("t")
    error = asyncio.run(hung())
    assert not error.is_ambiguous
    assert str(error) == "PUT /a: not sent: no connection, or no credentials, in time"


@pytest.mark.parametrize(("method", "is_over"), [("PUT", False), ("GET", True)])
def test_write_is_waited_for_as_long_as_the_server_may_take_and_a_read_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, *, is_over: bool
) -> None:
    monkeypatch.setattr(connection_module, "CALL_TIMEOUT_S", SOON_S)

    async def act() -> bool:
        async with connected(tmp_path) as (connection, requests):
            call = asyncio.ensure_future(connection.request(method, "/a"))
            to = await requests.next()
            done, _ = await asyncio.wait([call], timeout=4 * SOON_S)
            answer(to)
            await asyncio.wait([call])
            call.exception()
            return bool(done)

    assert asyncio.run(act()) is is_over


def test_write_waits_longer_than_the_server_with_all_its_webhooks() -> None:
    assert connection_module.WRITE_TIMEOUT_S > 60
