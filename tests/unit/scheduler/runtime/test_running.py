"""A program has as many connections as its configuration asks for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from scheduler.client.discovery import NotServed
from scheduler.runtime import running
from scheduler.runtime.configuration import Configuration, load


@pytest.mark.parametrize("concurrency", [1, 64, 1000])
def test_each_pod_that_is_bound_has_a_connection_and_what_goes_on_beside_it_too(
    concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    @asynccontextmanager
    async def connect(**options: object) -> AsyncIterator[None]:
        asked.append(options["calls"])
        yield

    async def discover(_: object) -> None:
        raise NotServed

    async def connected() -> None:
        async with running.connected(load(Configuration, None, {"bindingConcurrency": concurrency})):
            pass

    monkeypatch.setattr(running, "connect", connect)
    monkeypatch.setattr(running, "discover", discover)
    with pytest.raises(NotServed):
        asyncio.run(connected())
    assert asked == [concurrency + running.BESIDE_BINDINGS]
