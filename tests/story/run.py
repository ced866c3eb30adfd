"""The story of one pod, from its object to its binding: every call of the product, as a tree with files and lines.

It is a map for who is new here, and it is measured: `tests/unit/test_story.py` holds how much one decision enters.
"""

import argparse
import asyncio
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Self

from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import Placed
from scheduler.input.documents import read
from scheduler.input.inventory import DEFAULT, take_inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import Placement, PodToPlace
from scheduler.offline.snapshot_cluster import cluster_of
from tests.properties.attempt.server import Server, Way
from tests.properties.attempt.test_orders import History, Process, a_server

ROOT = Path(__file__).parents[2]
FLEET = ROOT / "manifests" / "examples" / "fleet"
ROOMS = tuple(f"{ROOT / name}/" for name in ("cel", "allocator", "scheduler"))


@dataclass(eq=False)
class Call:
    """A function that was entered, and what it called, each function once in the order of the first calls.

    By the identities of functions: those of two files are equal if they say the same at the same line.
    """

    code: CodeType
    caller: "Call | None" = None
    calls: "dict[int, Call]" = field(default_factory=dict)

    def entered(self, code: CodeType) -> "Call":
        """The call of this function from here; a coroutine that goes on is entered again."""
        return self.calls.setdefault(id(code), Call(code, self))

    @property
    def place(self) -> str:
        """File and line."""
        return f"{Path(self.code.co_filename).relative_to(ROOT)}:{self.code.co_firstlineno}"

    def below(self) -> "Iterator[Call]":
        """All that was called, by what it called itself too."""
        for call in self.calls.values():
            yield call
            yield from call.below()

    def depth(self) -> int:
        """Calls within each other below this one."""
        return max((1 + call.depth() for call in self.calls.values()), default=0)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of the product was entered."""

    modules: int
    functions: int
    depth: int

    @staticmethod
    def of(call: Call) -> "Extent":
        """All below the call."""
        entered = {id(one.code): one.code for one in call.below()}
        return Extent(len({code.co_filename for code in entered.values()}), len(entered), call.depth())

    def __str__(self) -> str:
        return f"{self.modules} modules, {self.functions} functions, depth {self.depth}"


class Recorder:
    """Records the calls of the product's functions while it is entered; entries: only what these of them call."""

    def __init__(self, entries: Collection[str]) -> None:
        self.story = self._current = Call(Recorder.__init__.__code__)
        self._entries = entries

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(ROOMS) or code.co_name.startswith("<"):
            return
        if event == "call" and (self._current is not self.story or code.co_name in self._entries):
            self._current = self._current.entered(code)
        elif event == "return" and self._current.code is code and self._current.caller is not None:
            self._current = self._current.caller


def decision() -> tuple[Call, PodToPlace, Placed]:
    """The first pending pod of the demo fleet that has a claim, decided by a cluster that has decided nothing yet."""
    inventory = take_inventory(read([str(FLEET)]))
    claims = Claims(inventory)
    placement = Placement(cluster_of(inventory, claims, inventory.pods, DEFAULT), claims, inventory.namespaces)
    looks = (placement.look(pod) for pod in inventory.pods if not pod.node_name)
    look = next(one for one in looks if one.pod is not None and one.claims)
    assert look.pod is not None
    with Recorder(["decide"]) as recorder:
        result = decide(placement.cluster, look.pod, look.claims, look.full)
    assert isinstance(result, Placed)
    return recorder.story, look, result


def binding() -> Call:
    """The writes for a pod with one claim, each of which the API server answers."""
    server = a_server([["claim"]])
    history = History(server)
    history.note()
    process = Process(history, 1, Random(1), behind=0)  # noqa: S311 - which of the equal nodes is chosen
    with Recorder(["new_attempt", "steps", "run"]) as recorder:
        asyncio.run(_bound(server, process))
    return recorder.story


async def _bound(server: Server, process: Process) -> None:
    task = asyncio.create_task(process.schedule("pod-0"))
    while not task.done():
        await asyncio.sleep(0)
        for call in [*server.waiting]:
            server.deliver(call, Way.ANSWERED)
            process.history.note()
    await task


def lines(call: Call, deepest: int, depth: int = 0) -> Iterator[str]:
    """The tree below the call, down to this depth."""
    for one in call.calls.values():
        is_last = depth + 1 == deepest
        more = f" ... {sum(1 for _ in one.below())} more" if is_last and one.calls else ""
        yield f"{'  ' * depth}{one.code.co_qualname}  {one.place}{more}"
        if not is_last:
            yield from lines(one, deepest, depth + 1)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=6, metavar="N", help="levels of calls to print (default: 6)")
    depth = parser.parse_args(arguments).depth
    decided, look, placed = decision()
    print(f"decide: pod {look.pod} goes to node {placed.node} ({Extent.of(decided)})")
    print(*lines(decided, depth), sep="\n")
    written = binding()
    print(f"\nbind: its writes ({Extent.of(written)})")
    print(*lines(written, depth), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
