"""The programs of a round, each with a proxy of its own: started, killed, stopped, and started again when they end."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Self

from tests.chaos.objects import SECOND as SECOND_NAME
from tests.chaos.objects import THEIRS
from tests.chaos.plan import EXTENDER, GUARDS, LEADER, SECOND, STANDBY
from tests.controlplane import inside
from tests.controlplane.certificates import Certificates
from tests.controlplane.guarded import WEBHOOK
from tests.controlplane.identities import EXTENDER as EXTENDERS
from tests.controlplane.identities import GUARD, OURS
from tests.controlplane.ours import Extender, Guard, Program, Scheduler
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.process import Process
from tests.controlplane.profiles import EXTENDER_FLAGS
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import Json
from tests.controlplane.within import launcher, move_clock

REQUEST_TIMEOUT_S = 10
"""Of the API server: for so long, and `SLACK_S`, a new guard refuses where the one before was killed."""

ELECTION = {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 6, "retryPeriodSeconds": 0.5}
GUARD_ELECTION = {**ELECTION, "leaseDurationSeconds": 12, "renewDeadlineSeconds": 10}
"""Longer: who follows a guard that has lost its lease refuses for a while, and the round waits."""

BACKOFF = {"podInitialBackoffSeconds": 0.1, "podMaxBackoffSeconds": 1}
LIMITS = {
    "scheduler.reporting:QUEUE_MAX": 4,
    "scheduler.reporting:QUEUED_OF_NAMESPACE": 2,
}
"""So few events that wait that their queue is full as soon as none can be written."""

_WITHIN_S = 10
_LOOKED_AT_EVERY_S = 0.1
_LEADS = re.compile(r"^leader_election_master_status\{.*\} 1", re.MULTILINE)
_API_VERSION = "dra-scheduler.dev/v1alpha1"


@dataclass(frozen=True, slots=True)
class EndedByItself:
    """A program that ended though nobody had ended it. error: the traceback of what it did not expect; empty else."""

    name: str
    why: str
    error: str


@dataclass(slots=True)
class Player:
    """One of our programs. start: another one of it. folder: what `inside` reads and writes. lives: how many it had."""

    name: str
    folder: Path
    proxy: Proxy
    start: Callable[[], Program]
    program: Program = field(init=False)
    began_s: float = 0.0
    lives: int = 0
    is_killed: bool = False

    def begin(self) -> None:
        """Start it, whoever has ended it."""
        self.program, self.began_s, self.is_killed = self.start(), monotonic(), False
        self.lives += 1

    def kill(self) -> None:
        """With SIGKILL; the next one has to be begun."""
        self.is_killed = True
        self.program.kill()

    def end(self) -> None:
        """With SIGKILL, whichever it is by then."""
        self.program.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send it to the program itself; one that has ended takes none."""
        with suppress(ProcessLookupError):
            os.kill(self.program.pid, number)

    def move_clock(self, seconds: float) -> None:
        """Its time of day is off by that."""
        move_clock(self.folder, seconds)

    def leads(self) -> bool:
        """Whether it says so; one that does not answer does not lead."""
        with suppress(OSError):
            return bool(_LEADS.search(self.program.reported("/metrics")))
        return False

    def under_way(self) -> Json:
        """What is under way in it, as `inside` says. Raises TimeoutError."""
        path = self.folder / inside.UNDER_WAY
        path.unlink(missing_ok=True)
        self.signal(signal.SIGUSR1)
        until = monotonic() + TIMEOUT_S
        while not path.exists():
            if monotonic() > until:
                raise TimeoutError(f"{self.name} does not say what is under way")
            sleep(_LOOKED_AT_EVERY_S / 10)
        found: Json = json.loads(path.read_text())
        return found

    def records(self) -> Iterator[Json]:
        """The lines of its log."""
        for line in self.program.log.read_text(errors="replace").splitlines():
            with suppress(json.JSONDecodeError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found


class Cast:
    """All programs, while the context is open. ends: of those that ended though nobody had ended them."""

    def __init__(self, plane: ControlPlane) -> None:
        self.players: dict[str, Player] = {}
        self.ends: list[EndedByItself] = []
        self._plane = plane
        self._stack = ExitStack()
        self._kube_scheduler: Process | None = None

    def __enter__(self) -> Self:
        folder = self._plane.folder / "cast"
        folder.mkdir()
        self._certificates = Certificates(folder)
        (self._extender_port,) = free_ports(1)
        with self._stack:
            for name, start in self._starts().items():
                self._add(folder / name, name, start)
            self.start_kube_scheduler()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _add(self, folder: Path, name: str, start: Callable[[Player], Program]) -> None:
        folder.mkdir()
        (folder / inside.LIMITS).write_text(json.dumps(LIMITS))
        proxy = self._stack.enter_context(Proxy(self._plane, name))
        player = Player(name, folder, proxy, lambda: start(player))
        player.begin()
        self._stack.callback(player.end)
        self.players[name] = player

    def _starts(self) -> Mapping[str, Callable[[Player], Program]]:
        ours = dict.fromkeys((LEADER, STANDBY), partial(self._scheduler, {"leaderElection": ELECTION}))
        second = {"leaderElection": {"leaderElect": False}, "schedulerName": SECOND_NAME}
        return {
            **dict.fromkeys(GUARDS, self._guard),
            **ours,
            SECOND: partial(self._scheduler, second),
            EXTENDER: self._extender,
        }

    def _scheduler(self, settings: Mapping[str, object], player: Player) -> Program:
        options = [_config(player, "DraSchedulerConfiguration", {**BACKOFF, **settings})]
        kubeconfig = player.proxy.kubeconfig(OURS)
        return Scheduler(
            self._plane, options, kubeconfig=kubeconfig, name=player.name, launcher=launcher(player.folder)
        )

    def _guard(self, player: Player) -> Program:
        options = [
            _config(player, "DraGuardConfiguration", {"leaderElection": GUARD_ELECTION}),
            *(f"--publish-certificate={WEBHOOK}", "--publish-endpoint=dra-guard", "--pod-ip=10.1.2.3"),
            f"--request-timeout={REQUEST_TIMEOUT_S}",
        ]
        kubeconfig, (port,) = player.proxy.kubeconfig(GUARD), free_ports(1)
        return Guard(
            self._plane, port, options, kubeconfig=kubeconfig, name=player.name, launcher=launcher(player.folder)
        )

    def _extender(self, player: Player) -> Program:
        own = {
            "schedulerNames": [THEIRS],
            "address": f"127.0.0.1:{self._extender_port}",
            "tls": self._certificates.tls_of_extender(),
            "httpTimeoutSeconds": _WITHIN_S,
        }
        options = [_config(player, "DraExtenderConfiguration", own)]
        kubeconfig = player.proxy.kubeconfig(EXTENDERS)
        return Extender(self._plane, options, kubeconfig=kubeconfig, name=player.name, launcher=launcher(player.folder))

    # -- kube-scheduler, which is not ours

    def start_kube_scheduler(self) -> None:
        """Start it, with our extender."""
        verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
        extender = {
            "urlPrefix": f"https://127.0.0.1:{self._extender_port}/v1",
            **verbs,
            "weight": 5,
            "nodeCacheCapable": True,
            "ignorable": False,
            "httpTimeout": f"{_WITHIN_S}s",
            "enableHTTPS": True,
            "tlsConfig": self._certificates.tls_of_scheduler(),
        }
        without = {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}
        configuration = {
            "profiles": [{"schedulerName": THEIRS, "plugins": without}],
            "extenders": [extender],
            "percentageOfNodesToScore": 100,
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
        }
        self._kube_scheduler = self._plane.start_scheduler(configuration, flags=EXTENDER_FLAGS)

    def kill_kube_scheduler(self) -> None:
        """With SIGKILL."""
        assert self._kube_scheduler
        self._kube_scheduler.kill()
        self._kube_scheduler = None

    # -- all of them

    def keep(self) -> None:
        """Start again what has ended."""
        for player in self.players.values():
            if not player.program.is_running:
                if not player.is_killed:
                    self.ends.append(_end_of(player))
                player.begin()
        if self._kube_scheduler is None:
            self.start_kube_scheduler()

    def await_ready(self) -> None:
        """Return when all are ready. Raises TimeoutError."""
        until = monotonic() + TIMEOUT_S
        while unready := [one.name for one in self.players.values() if not one.program.is_ready()]:
            if monotonic() > until:
                raise TimeoutError(f"not ready: {', '.join(unready)}")
            self.keep()
            sleep(_LOOKED_AT_EVERY_S)


def _config(player: Player, kind: str, settings: Mapping[str, object]) -> str:
    path = player.folder / "config.json"
    path.write_text(json.dumps({"apiVersion": _API_VERSION, "kind": kind, **settings}))
    return f"--config={path}"


def _end_of(player: Player) -> EndedByItself:
    errors = [one for one in player.records() if one.get("level") == "error"]
    last = errors[-1] if errors else {"message": player.program.tail()}
    return EndedByItself(player.name, f"exit code {player.program.exit_code}: {last['message']}", last.get("error", ""))
