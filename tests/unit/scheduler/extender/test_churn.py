"""A server of calls that has seen many connections come and go keeps nothing of them."""

import asyncio
import gc
from collections import Counter
from urllib.parse import urlsplit

from scheduler.runtime.listening import _Acceptor
from scheduler.runtime.server import _VerbServer, serving
from tests.unit.scheduler.churn import AT_ONCE, FIRST, ROUNDS, assert_nothing_has_grown, entries
from tests.unit.scheduler.extender.serving import served

CALL = b"POST /v1/filter HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


async def come_and_go(url: str) -> None:
    """Connections of which some bring a call, some half of one, and some nothing."""
    where = urlsplit(url)
    opened = [await asyncio.open_connection(where.hostname, where.port) for _ in range(AT_ONCE)]
    for number, (reader, writer) in enumerate(opened):
        call = CALL[: (0, len(CALL) // 2, len(CALL))[number % 3]]
        writer.write(call)
        if call == CALL:
            await reader.readline()
    for _, writer in opened:
        writer.close()
        await writer.wait_closed()


def test_nothing_is_kept_of_connections_that_are_closed() -> None:
    async def churn() -> tuple[Counter[str], Counter[str]]:
        found = []
        async with serving("127.0.0.1:0", None, served()) as url:
            verbs, acceptor = parts_of_the_server()
            for number in (FIRST, ROUNDS):
                for _ in range(number):
                    await come_and_go(url)
                    while verbs.connections:  # noqa: ASYNC110 - the other end of each has to hear of it
                        await asyncio.sleep(0)
                found.append(entries(verbs, acceptor))
        return found[0], found[1]

    assert_nothing_has_grown(*asyncio.run(churn()))


def parts_of_the_server() -> tuple[_VerbServer, _Acceptor]:
    gc.collect()
    found = gc.get_objects()
    (verbs,) = (one for one in found if type(one) is _VerbServer)
    (acceptor,) = (one for one in found if type(one) is _Acceptor)
    return verbs, acceptor
