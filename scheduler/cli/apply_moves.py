"""Carries out a plan of `dra defrag` on a cluster: one eviction at a time, while the target's room is kept.

After each eviction it waits until the pod that the controller makes in its place is bound where it was planned.
Anything else than planned ends it: what was done is told, nothing more is evicted, and what was kept for the target is
free. A second run plans from what is there then.
Source: the Eviction API, which keeps PodDisruptionBudgets.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from allocator.api.versions import Json
from scheduler.attempt import room as rooms
from scheduler.attempt.room import Room
from scheduler.cli.cluster_source import ClusterAccess
from scheduler.cli.ending import print_to_stderr, stop
from scheduler.cli.live_cluster import connected
from scheduler.client.api_resources import NODES, PODS
from scheduler.client.connection import Connection
from scheduler.client.discovery import NotServed
from scheduler.client.errors import ApiError, ApiErrorKind, CallFailed, NotConfigured
from scheduler.core_v1.pod import Pod
from scheduler.defrag.search import Move, MovePlan

POLL_S = 0.5
ANSWER_S = 30.0
"""How long the scheduler has to say that it keeps the room."""

SPARE_S = 60.0
"""The room is kept for so much longer than its steps may take."""

Printed = Callable[[str], None]


class NotAsPlanned(Exception):
    """What is else than planned, in words."""


def carry_out(access: ClusterAccess, plan: MovePlan, timeout_s: float, printed: Printed) -> bool:
    """Whether the target is bound where it was planned. timeout_s: for each step."""
    try:
        return asyncio.run(_carry_out(access, plan, timeout_s, printed))
    except (NotConfigured, NotServed) as error:
        stop(str(error))


async def _carry_out(access: ClusterAccess, plan: MovePlan, timeout_s: float, printed: Printed) -> bool:
    async with connected(access) as (connection, _, _):
        return await Moving(connection, plan, timeout_s, printed).run()


@dataclass(slots=True)
class _MovesDone:
    """What was done. evicted: the pod of a move that is not done yet."""

    done: int = 0
    evicted: str = ""


class Moving:
    """One plan, whose target is one pod."""

    def __init__(self, api: Connection, plan: MovePlan, timeout_s: float, printed: Printed) -> None:
        (place,) = plan.way.places
        assert place.asked.pod is not None, "only a pod is nominated"
        self._api, self._plan, self._timeout_s, self._print = api, plan, timeout_s, printed
        self._target, self._node = place.asked.pod, place.placed.node
        self._key = (self._target.namespace, self._target.name)
        self._name = uuid.uuid4().hex
        self._state = _MovesDone()

    async def run(self) -> bool:
        """Whether all went as planned."""
        is_done = False
        try:
            await self._keep_room()
            for number, move in enumerate(self._plan.moves, 1):
                self._print(
                    f"step {number} of {len(self._plan.moves)}: evict pod {move.mover.pod} from {move.mover.node}"
                )
                await self._ask(steps=1 + (number == len(self._plan.moves)))  # the target is awaited after the last one
                await self._move(move)
            await self._await_target()
            is_done = True
        except (NotAsPlanned, CallFailed) as error:
            print_to_stderr(self._account(str(error)))
        finally:
            if not is_done:
                with suppress(CallFailed):
                    await rooms.do_without(self._api, self._key, self._target.uid)
        return is_done

    def _account(self, problem: str) -> list[str]:
        state, number = self._state, len(self._plan.moves)
        lines = [f"dra: not as planned: {problem}", f"dra: {state.done} of {number} moves are done"]
        if state.evicted:
            lines.append(f"dra: pod {state.evicted} was evicted, and is not where it was planned")
        lines.append("dra: nothing more is evicted, and nothing is kept any more; run it again to go on from here")
        return lines

    # -- the room of the target

    async def _keep_room(self) -> None:
        stored, _ = await rooms.read(self._api, self._key, self._target.uid)
        if stored is not None and (stored.get("status") or {}).get("nominatedNodeName"):
            await rooms.do_without(self._api, self._key, self._target.uid)  # of a run that was killed
        room = await self._ask()

        async def is_kept() -> bool:
            return rooms.keeps(await self._present_target(), room)

        why = f"no scheduler keeps room for pod {self._target}: `dra scheduler run` has to place it"
        await self._until(is_kept, ANSWER_S, lambda: why)
        self._print(f"room for pod {self._target} is kept on {self._node}")

    async def _ask(self, steps: int = 1) -> Room:
        """Ask for the room for as long as so many steps may take."""
        moving = frozenset(one.mover.uid for one in self._plan.moves)
        room = Room(self._name, self._node, moving, time.time() + steps * self._timeout_s + SPARE_S)
        await rooms.ask_for(self._api, self._key, self._target.uid, room)
        return room

    async def _present_target(self) -> Json:
        """The target as it is stored, which still waits for its room, or has it as soon as the last pod has gone."""
        stored, _ = await rooms.read(self._api, self._key, self._target.uid)
        if stored is None or stored["metadata"].get("deletionTimestamp"):
            raise NotAsPlanned(f"pod {self._target} is gone")
        node = stored["spec"].get("nodeName")
        if node and node != self._node:
            raise NotAsPlanned(f"pod {self._target} is on node {node}, not on {self._node}")
        if not node and (stored.get("status") or {}).get("nominatedNodeName") != self._node:
            why = rooms.refusal(stored, self._name)
            gone = f"pod {self._target} is not nominated to node {self._node} any more"
            raise NotAsPlanned(f"no room is kept for pod {self._target} on node {self._node}: {why}" if why else gone)
        return stored

    async def _await_target(self) -> None:
        async def is_bound() -> bool:
            await self._require_node(self._node)
            return bool((await self._present_target())["spec"].get("nodeName"))

        await self._until(is_bound, self._timeout_s, lambda: f"pod {self._target} is not bound yet")
        self._print(f"pod {self._target} is bound to {self._node}")

    # -- a move

    async def _move(self, move: Move) -> None:
        pod, planned = move.mover.pod, move.placed.node
        before = {one["metadata"]["uid"] for one in await self._siblings(pod)}
        await self._evict(pod)
        self._state.evicted = str(pod)
        said = "no pod was made in its place yet"

        async def is_bound() -> bool:
            nonlocal said
            await self._require_node(planned)
            await self._require_node(self._node)
            await self._present_target()
            for sibling in await self._siblings(pod):
                if sibling["metadata"]["uid"] in before or sibling["metadata"].get("deletionTimestamp"):
                    continue
                name, node = f"{pod.namespace}/{sibling['metadata']['name']}", sibling["spec"].get("nodeName")
                if node and node != planned:
                    raise NotAsPlanned(
                        f"pod {name} was made in place of {pod}, and is on node {node}, not on {planned}"
                    )
                if node:
                    self._print(f"pod {name} is bound to {node}")
                    return True
                said = f"pod {name} is not bound yet: {_refusal(sibling)}"
            return False

        await self._until(is_bound, self._timeout_s, lambda: f"pod {pod} was evicted, and {said}")
        self._state.done += 1
        self._state.evicted = ""

    async def _evict(self, pod: Pod) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self._api.request("POST", PODS.path(pod.namespace, pod.name, "eviction"), body=body)
        except ApiError as error:
            if error.kind in (ApiErrorKind.MISSING, ApiErrorKind.CONFLICT):
                raise NotAsPlanned(f"pod {pod} is gone, or another one has its name") from error
            raise NotAsPlanned(f"pod {pod} is not evicted: {error}") from error

    async def _siblings(self, pod: Pod) -> list[Mapping[str, Any]]:
        """The pods of the same controller."""
        listed = await self._api.request("GET", PODS.path(pod.namespace), most_bytes=None)
        return [one for one in listed["items"] if _controller(one) == (pod.owner.uid if pod.owner else "")]

    async def _require_node(self, name: str) -> None:
        try:
            await self._api.request("GET", NODES.path(name=name))
        except ApiError as error:
            if error.kind is ApiErrorKind.MISSING:
                raise NotAsPlanned(f"node {name} is gone") from error
            raise

    async def _until(self, holds: Callable[[], Awaitable[bool]], timeout_s: float, why: Callable[[], str]) -> None:
        end = time.monotonic() + timeout_s
        while not await holds():
            if time.monotonic() > end:
                raise NotAsPlanned(f"{why()} (after {timeout_s:g} s)")
            await asyncio.sleep(POLL_S)


def _controller(pod: Mapping[str, Any]) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in owners if one.get("controller")), "")


def _refusal(pod: Mapping[str, Any]) -> str:
    """Why the pod is not scheduled, as its status says."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    said = [str(one.get("message") or "") for one in conditions if one["type"] == "PodScheduled"]
    return said[0] if said and said[0] else "no scheduler has said why"
