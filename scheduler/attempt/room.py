"""Room that is kept for a pod while others move away for it: how it is asked for, and how the scheduler answers.

Who moves pods nominates the target in its status, and says in a condition there what for: users may write annotations,
and not the status. The scheduler keeps room and devices as it does for a preemption, and says so in a
condition of its own. That ends with the pod's binding, with the nomination, or at its time, so that nobody who was
killed leaves devices without use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from allocator.api.versions import Json
from scheduler.attempt import pod_calls
from scheduler.attempt.binder import Binder
from scheduler.client.api_resources import PODS
from scheduler.client.connection import STRATEGIC_MERGE, Api
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_status import Condition

ROOM_ASKED = "dra-scheduler.dev/RoomAsked"
"""The condition of a pod for which others move; its message is the request."""

ROOM_KEPT = "dra-scheduler.dev/RoomKept"
"""The condition of such a pod: "True" while the scheduler keeps its room."""

KEPT, ENDED, LATE, FULL = "KeptForMoves", "MovesEnded", "TimeIsOver", "NoRoom"
"""Its reasons. LATE: from the beginning, by the scheduler's clock, which may be ahead of that of who asks."""

_NOT_ASKED = {"type": ROOM_ASKED, "$patch": "delete"}

_REFUSALS = {
    LATE: "its time was over from the beginning, by the scheduler's clock: is the clock of this machine behind?",
    FULL: "the node has no room for it",
}


@dataclass(frozen=True, slots=True)
class Room:
    """What is asked for. moving: uids of the pods that go. until: in seconds since 1970. name: of this request."""

    name: str
    node: str
    moving: frozenset[str]
    until: float

    def __str__(self) -> str:
        fields = {"name": self.name, "node": self.node, "moving": sorted(self.moving), "until": self.until}
        return orjson.dumps(fields).decode()


def room_of(pod: Mapping[str, Any]) -> Room | None:  # Any: JSON
    """What is asked for the pod, if its status names the node; None as well for what is not of our form."""
    room = request_of(pod)
    return room if room and room.node and (pod.get("status") or {}).get("nominatedNodeName") == room.node else None


def request_of(pod: Mapping[str, Any]) -> Room | None:  # Any: JSON
    """The same, whatever node its status names."""
    asked = (one for one in _conditions(pod) if one.get("type") == ROOM_ASKED)
    text = next(asked, {}).get("message")
    try:
        fields = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return None
    match fields:
        case {"name": str(name), "node": str(node), "moving": list(moving), "until": int() | float() as until}:
            return Room(name, node, frozenset(one for one in moving if isinstance(one, str)), float(until))
        case _:
            return None


def keeps(pod: Mapping[str, Any], room: Room) -> bool:  # Any: JSON
    """Whether the scheduler keeps the room."""
    said = [(one.get("status"), one.get("message")) for one in _conditions(pod) if one.get("type") == ROOM_KEPT]
    return said == [("True", room.name)]


def refusal(pod: Mapping[str, Any], name: str) -> str:  # Any: JSON
    """Why the scheduler has not kept the room of that name; empty where it has not said so."""
    of_name = (one for one in _conditions(pod) if (one.get("type"), one.get("message")) == (ROOM_KEPT, name))
    return _REFUSALS.get(next(of_name, {}).get("reason", ""), "")


def _conditions(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:  # Any: JSON
    return (pod.get("status") or {}).get("conditions") or ()


async def ask_for(api: Api, pod: NamespacedName, uid: str, room: Room) -> None:
    """Ask for the room, first or again for longer. Raises CallFailed."""
    asked = {"type": ROOM_ASKED, "status": "True", "reason": "PodsMove", "message": str(room)}
    await _patch_status(api, pod, uid, {"nominatedNodeName": room.node, "conditions": [asked]})


async def do_without(api: Api, pod: NamespacedName, uid: str) -> None:
    """The room is needed no more. Raises CallFailed."""
    await _patch_status(api, pod, uid, {"nominatedNodeName": None, "conditions": [_NOT_ASKED]})


async def answer(binder: Binder, pod: Pod, room: Room, reason: str, *, is_asked: bool = True) -> None:
    """Say on the pod whether its room is kept. Raises CallFailed.

    is_asked: whether the request stays. One that was taken back may have been followed by another.
    """
    said = Condition(ROOM_KEPT, "True" if reason == KEPT else "False", reason, room.name)
    status = pod_calls.status_with(said, None, binder.time.now())
    if not is_asked:
        status["conditions"].append(_NOT_ASKED)
    await _patch_status(binder.api, (pod.namespace, pod.name), pod.uid, status)


async def _patch_status(api: Api, pod: NamespacedName, uid: str, status: Json) -> None:
    body = {"metadata": {"uid": uid}, "status": status}
    await api.request("PATCH", PODS.path(*pod, "status"), body=body, content_type=STRATEGIC_MERGE)


async def read(api: Api, pod: NamespacedName, uid: str) -> tuple[Json | None, Room | None]:
    """The pod as it is stored, and what is asked for it. Raises CallFailed."""
    stored = await pod_calls.get(api, *pod, uid)
    return stored, room_of(stored) if stored is not None else None
