"""A client that calls filter at a steady rate over mutual TLS, whatever the answers take, and says how long they took.

A program of its own, so that it shares no interpreter with anything that is measured. Times run from when a call was to
be made: one that had to wait for those before it has waited. Its order comes as JSON on standard input, what it found
goes to standard output.
"""

import asyncio
import gc
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import aiohttp
import orjson

from benchmarks.extender.cases import CASES, PODS, Case, body
from scheduler.extender.verbs import nodes_to_find

FIRST_S = 0.5
"""Before the first call."""

CONNECTIONS = 8
"""Calls that find none free wait, as in kube-scheduler, which asks for one pod after the other."""


@dataclass(frozen=True, slots=True)
class CallOrder:
    """What to do. case: by its name for flags. url: of filter. rate: calls a second, 0 for each after the last one."""

    case: str
    url: str
    ca_file: str
    certificate: str
    key: str
    rate: float
    calls: int


class ClientWrongAnswer(Exception):
    """A call was not answered as it has to be; the message says how it was."""


def main() -> None:
    """The program."""
    order = CallOrder(**orjson.loads(sys.stdin.buffer.read()))
    try:
        times_s = asyncio.run(_run(order))
    except (ClientWrongAnswer, aiohttp.ClientError) as error:
        sys.exit(f"client: {error}")
    sys.stdout.buffer.write(orjson.dumps(times_s))


async def _run(order: CallOrder) -> Sequence[float]:
    tls = ssl.create_default_context(cafile=order.ca_file)
    tls.load_cert_chain(order.certificate, order.key)
    case = CASES[order.case]
    bodies = [body(case, number) for number in range(PODS)]
    gc.freeze()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls)) as session:
        calls = _Calls(session, order.url, case)
        if not order.rate:
            return [await calls.at(monotonic(), bodies[number % PODS]) for number in range(order.calls)]
        began = monotonic() + FIRST_S
        planned = [(began + number / order.rate, bodies[number % PODS]) for number in range(order.calls)]
        return await asyncio.gather(*(calls.at(time, one) for time, one in planned))


@dataclass(frozen=True, slots=True)
class _Calls:
    session: aiohttp.ClientSession
    url: str
    case: Case

    async def at(self, planned: float, body: bytes) -> float:
        """Makes the call at that time of the monotonic clock; how long after it the answer was there."""
        await asyncio.sleep(planned - monotonic())
        async with self.session.post(self.url, data=body, headers={"Content-Type": "application/json"}) as answer:
            text = await answer.read()
        took_s = monotonic() - planned
        check(answer.status, text, self.case.nodes)
        return took_s


def check(status: int, text: bytes, nodes: int) -> None:
    """Raises WrongAnswer unless each of so many nodes has passed or has a reason, or enough of them have passed."""
    if status != 200:
        raise ClientWrongAnswer(f"status {status}: {text.decode(errors='replace')[:500]}")
    answer = orjson.loads(text)
    if answer["Error"]:
        raise ClientWrongAnswer(f"Error: {answer['Error']}")
    reported = len(answer["NodeNames"]) + len(answer["FailedNodes"]) + len(answer["FailedAndUnresolvableNodes"])
    if reported != nodes and len(answer["NodeNames"]) != nodes_to_find(nodes, 0):
        raise ClientWrongAnswer(f"the answer contains {reported} of {nodes} nodes")


if __name__ == "__main__":
    main()
