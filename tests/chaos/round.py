"""One round: pods come, end and go while things go wrong; then all is placed, then all goes, and nothing is left."""

import http.client
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic, sleep

from tests.chaos import judge
from tests.chaos.cast import Cast, Player
from tests.chaos.etcd import CLAIMS, PODS, VOLUME_CLAIMS, VOLUMES, EtcdHistory
from tests.chaos.growth import Use, grown, use_of
from tests.chaos.judge import INTERNAL, LEFT, MISNAMED, NOT_EVICTED, NOT_PLACED, NOT_QUIET, Judge
from tests.chaos.objects import NAME
from tests.chaos.plan import RoundPlan, Step
from tests.chaos.wrong import Troublemaker
from tests.controlplane.identities import ADMIN
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.rest import CLAIM, POD, VOLUME, VOLUME_CLAIM, ApiError, Json, Kind, RestClient
from tests.soak.checker import Wrong

USER_S = 3.0
"""For so long a user waits for the API server."""

PAUSE_S = 0.5
"""For so long the next step of the load waits at most: where nothing goes on, nothing would ever come."""

PLACED_S = 180.0
"""A guard that follows one that was killed refuses for 25 s, and starts when the lease has ended."""

GONE_S = 240.0
"""What a lost process has left on a claim is swept after two minutes."""

QUIET_S = 90.0

_KINDS = {PODS: POD, CLAIMS: CLAIM, VOLUME_CLAIMS: VOLUME_CLAIM, VOLUMES: VOLUME}
_LOST = (OSError, http.client.HTTPException, ValueError)  # ValueError: an answer that is cut off is no JSON


class RoundRun:
    """Carries rounds out, one after the other, on one control plane."""

    def __init__(
        self, plane: ControlPlane, cast: Cast, trouble: Troublemaker, history: EtcdHistory, judged: Judge
    ) -> None:
        self._cast, self._trouble, self._history, self._judge = cast, trouble, history, judged
        self._api = RestClient(plane.server, plane.ca_file, plane.token_file(ADMIN).read_text(), USER_S)
        self._uses: dict[tuple[str, int], list[Use]] = {}
        self._told: set[str] = set()

    def uses(self) -> dict[str, Use]:
        """What each program used after its last round, while nothing was under way."""
        lives = {one.name: self._uses.get((one.name, one.lives)) for one in self._cast.players.values()}
        return {name: life[-1] for name, life in lives.items() if life}

    def play(self, plan: RoundPlan) -> list[Wrong]:
        """What was wrong in the round."""
        try:
            self._load(plan)
        finally:
            self._trouble.end_all()
        found = self._settled() or [*self._drained(), *self._emptied()]
        return [*self._judge.wrongs(), *found, *self._errors()]

    # -- the load

    def _load(self, plan: RoundPlan) -> None:
        for number, step in enumerate(plan.steps):
            for fault in plan.faults:
                if fault.ends == number:
                    self._trouble.end(fault)
            for fault in plan.faults:
                if fault.begins == number:
                    self._trouble.begin(fault)
            self._cast.keep()
            self._pause(step.pause)
            self._do(step)

    def _pause(self, revisions: int) -> None:
        until = self._history.revisions + revisions
        self._history.wait(lambda: self._history.revisions >= until, PAUSE_S)

    def _do(self, step: Step) -> None:
        if step.act == "come":
            for obj in (*step.arrival.before, *step.arrival.pods):
                self._insist(partial(self._api.create, obj), HTTP_THERE)
        for pod in step.arrival.pods if step.act == "end" else ():
            self._end(pod["metadata"]["name"])
        for pod in step.arrival.pods if step.act == "leave" else ():
            self._insist(partial(self._api.delete, POD, pod["metadata"]["name"], NAME), HTTP_GONE)

    def _end(self, name: str) -> None:
        """As a kubelet says it of a pod that has run; one that has no node ends as well, and a pod that is gone not."""

        def end() -> None:
            pod = self._api.get(POD, name, NAME)
            self._api.replace_status({**pod, **_kind(POD), "status": {**pod["status"], "phase": "Succeeded"}})

        self._insist(end, HTTP_GONE)

    def _insist(self, call: Callable[[], object], done: int) -> None:
        """Until it is done. done: the status that says that it is done already."""
        until = monotonic() + TIMEOUT_S
        while True:
            try:
                call()
            except ApiError as error:
                if error.status == done and error.reason in ("AlreadyExists", "NotFound"):
                    return
                if monotonic() > until or error.status not in PASSING:
                    raise
            except _LOST:
                self._trouble.wake_servers()
                if monotonic() > until:
                    raise
                sleep(0.05)
            else:
                return

    # -- afterwards

    def _settled(self) -> list[Wrong]:
        """All that can be placed is placed, whoever was lost."""
        self._cast.keep()
        self._cast.await_ready()

        def is_settled() -> bool:
            pods = self._pods()
            return not judge.unplaced(pods) and not judge.not_evicted(pods) and not self._misnamed()

        self._wait(is_settled, PLACED_S)
        pods = self._pods()
        if wrong := self._misnamed():
            return [self._wrong_of(MISNAMED, pod) for pod in wrong]
        waiting = [self._wrong_of(NOT_PLACED, pod) for pod in judge.unplaced(pods)]
        short = [self._wrong_of(f"{NOT_EVICTED} ({judge.told(least)})", pod) for pod, least in judge.not_evicted(pods)]
        return [*waiting, *short, *judge.not_spread(pods)]

    def _drained(self) -> list[Wrong]:
        """Those that have a port end until nobody waits for one."""
        while True:
            users, waiting = judge.users_of_ports(self._pods())
            if not waiting:
                return []
            for pod in users:
                self._end(pod["metadata"]["name"])
            if stuck := self._settled():
                return stuck

    def _emptied(self) -> list[Wrong]:
        """All goes, and nothing is left, of objects or in memory."""
        for resource, kind in _KINDS.items():
            for obj in self._history.objects(resource, "" if resource == VOLUMES else NAME):
                self._insist(partial(self._api.delete, kind, obj["metadata"]["name"], _namespace(kind)), HTTP_GONE)
        if not self._wait(lambda: not judge.left(self._history), GONE_S):
            return [Wrong(LEFT, 0, text) for text in judge.left(self._history)]
        return [wrong for player in self._cast.players.values() for wrong in self._quiet(player)]

    def _quiet(self, player: Player) -> list[Wrong]:
        until = monotonic() + QUIET_S
        while (found := self._not_quiet(player)) and monotonic() < until:
            self._cast.keep()
            sleep(0.05)
        player.proxy.requests.clear()
        life = self._uses.setdefault((player.name, player.lives), [])
        if not found:
            life.append(use_of(player))
            found = list(grown(life))
        return [Wrong(NOT_QUIET, 0, f"{player.name}: {text}") for text in found]

    def _not_quiet(self, player: Player) -> list[str]:
        with suppress(OSError, http.client.HTTPException, TimeoutError):
            return judge.not_quiet(player)
        return ["it does not answer"]

    def _errors(self) -> list[Wrong]:
        """What no program should ever say, of all that they said since the last round."""
        ends = [f"{one.name} ended: {one.why}: {one.error}" for one in self._cast.ends if one.error]
        told = [text for player in self._cast.players.values() for text in judge.internal_errors(player)]
        new = [text for text in (*ends, *told) if text not in self._told]
        self._told.update(new)
        return [Wrong(INTERNAL, 0, text) for text in new]

    def _wait(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it holds in time; who ends meanwhile is started again."""

        def kept() -> bool:
            self._cast.keep()
            return holds()

        return self._history.wait(kept, timeout_s)

    def _misnamed(self) -> list[Json]:
        return judge.misnamed(self._pods(), self._history.objects(CLAIMS, NAME))

    def _pods(self) -> list[Json]:
        return self._history.objects(PODS, NAME)

    def _wrong_of(self, rule: str, pod: Json) -> Wrong:
        metadata, conditions = pod["metadata"], pod.get("status", {}).get("conditions", ())
        why = "; ".join(str(one.get("message", "")) for one in conditions if one["type"] == "PodScheduled")
        text = f"pod {metadata['name']} ({metadata['uid']}) of {pod['spec']['schedulerName']}: {why or 'no condition'}"
        return Wrong(rule, int(metadata["resourceVersion"]), text, f"Pod {NAME}/{metadata['name']}")


HTTP_THERE, HTTP_GONE = 409, 404
PASSING = frozenset({409, 429, 500, 503, 504})
"""Answers after which a user tries again. 500 and 503: of a server that starts or whose etcd is away."""


def _kind(kind: Kind) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _namespace(kind: Kind) -> str:
    return "" if kind == VOLUME else NAME
