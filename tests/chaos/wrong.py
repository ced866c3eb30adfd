"""What goes wrong, by name: each is begun, and what it gives back ends it."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tests.chaos.cast import Cast
from tests.chaos.etcd import EtcdHistory
from tests.chaos.plan import API_SERVER, ETCD, GROUPS, KUBE_SCHEDULER, ChaosFault
from tests.controlplane.door import Door
from tests.controlplane.faults import Delay, Fault, Hold, cut_before
from tests.controlplane.plane import ControlPlane
from tests.controlplane.trouble import spoil

METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
LEASES = {"schedulers": "kube-system/dra-scheduler", "guards": "kube-system/dra-guard"}
DEPOSED_S = 30.0

End = Callable[[], None]


def nothing() -> None:
    """What has ended by itself."""


class Troublemaker:
    """Lets things go wrong, and ends that."""

    def __init__(self, plane: ControlPlane, cast: Cast, way: Door, history: EtcdHistory) -> None:
        self._plane, self._cast, self._door, self._history = plane, cast, way, history
        self._ends: dict[ChaosFault, End] = {}
        self._ways: dict[str, Callable[[ChaosFault], End]] = {
            "kill": self._kill,
            "kill a guard": self._kill,
            "kill the server": self._kill_server,
            "depose": self._depose,
            "stop": self._stop,
            "cut": self._cut,
            "half-open": self._half_open,
            "slow": self._slow,
            "errors": self._spoil,
            "events": self._hold_events,
            "clock": self._move_clock,
            "door": self._close_door,
            "answers": self._hold_answers,
        }

    def begin(self, fault: ChaosFault) -> None:
        """From now on this goes wrong."""
        self._ends[fault] = self._ways[fault.way](fault)

    def end(self, fault: ChaosFault) -> None:
        """It goes wrong no more; again is no error."""
        self._ends.pop(fault, nothing)()

    def end_all(self) -> None:
        """Nothing goes wrong any more."""
        for fault in list(self._ends):
            self.end(fault)

    def wake_servers(self) -> None:
        """A user has waited for as long as one does: what was stopped of the control plane goes on."""
        for fault in list(self._ends):
            if fault.way == "stop" and fault.target in (API_SERVER, ETCD):
                self.end(fault)

    # -- the ways

    def _kill(self, fault: ChaosFault) -> End:
        if fault.target == KUBE_SCHEDULER:
            self._cast.kill_kube_scheduler()
        else:
            self._cast.players[fault.target].kill()
        return nothing

    def _kill_server(self, fault: ChaosFault) -> End:
        restart = {API_SERVER: self._plane.restart_api_server, ETCD: self._plane.restart_etcd}
        restart[fault.target]()
        return nothing

    def _stop(self, fault: ChaosFault) -> End:
        if player := self._cast.players.get(fault.target):
            player.signal(signal.SIGSTOP)
            return lambda: player.signal(signal.SIGCONT)
        pid = self._plane.pids()[fault.target]
        os.kill(pid, signal.SIGSTOP)
        return lambda: _go_on(pid)

    def _depose(self, fault: ChaosFault) -> End:
        """The leader is stopped until another one leads; then it has to end, and writes nothing before."""
        players = [self._cast.players[name] for name in GROUPS[fault.target]]
        leading = [one for one in players if one.leads()]
        before = self._holder(fault.target)
        for one in leading:
            one.signal(signal.SIGSTOP)
        if leading:
            self._history.wait(lambda: self._holder(fault.target) != before, DEPOSED_S)
            for one in leading:
                one.signal(signal.SIGCONT)
        return nothing

    def _holder(self, group: str) -> str:
        found = self._history.objects("leases", "kube-system")
        name = LEASES[group].partition("/")[2]
        return next((str(one["spec"].get("holderIdentity")) for one in found if one["metadata"]["name"] == name), "")

    def _cut(self, fault: ChaosFault) -> End:
        return self._meets(fault, cut_before, cuts=True)

    def _half_open(self, fault: ChaosFault) -> End:
        """Calls and watches stay open, and nothing comes; what was under way arrives later."""
        hold, proxy = Hold(), self._cast.players[fault.target].proxy
        for method in METHODS:
            proxy.on(method, "", hold, times=None)
        proxy.silence_watches()

        def end() -> None:
            proxy.forget_rules()
            hold.release()
            proxy.cut_watches()

        return end

    def _slow(self, fault: ChaosFault) -> End:
        return self._meets(fault, Delay(fault.amount), cuts=True)

    def _meets(self, fault: ChaosFault, met: Fault, *, cuts: bool) -> End:
        proxy = self._cast.players[fault.target].proxy
        for method in METHODS:
            proxy.on(method, "", met, times=None)
        if cuts:
            proxy.cut_watches()
        return proxy.forget_rules

    def _spoil(self, fault: ChaosFault) -> End:
        proxy = self._cast.players[fault.target].proxy
        spoil(proxy, Random(str(fault)), fault.amount)  # noqa: S311 - no secret
        proxy.cut_watches()
        return proxy.forget_rules

    def _hold_events(self, fault: ChaosFault) -> End:
        """Events cannot be written, so that their queue is full soon."""
        hold, proxy = Hold(), self._cast.players[fault.target].proxy
        for method in ("POST", "PATCH"):
            proxy.on(method, r"/events", hold, times=None)

        def end() -> None:
            proxy.forget_rules()
            hold.release()

        return end

    def _move_clock(self, fault: ChaosFault) -> End:
        player = self._cast.players[fault.target]
        player.move_clock(fault.amount)
        return lambda: player.move_clock(0.0)

    def _close_door(self, fault: ChaosFault) -> End:
        """The API server does not reach the guard."""
        self._door.close_to(is_closed=True)
        return lambda: self._door.close_to(is_closed=False)

    def _hold_answers(self, fault: ChaosFault) -> End:
        self._door.hold_answers()
        return self._door.let_answers_pass


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
