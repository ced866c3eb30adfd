"""Our programs as processes of their own, each as the service account that it has in a cluster."""

import http.client
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests.controlplane.identities import GUARD, OURS
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.process import Process, says_ok

PROGRAM = Path(sys.executable).with_name("dra")

WITHOUT_LEASE = ("--leader-elect=false",)
"""Options of a scheduler that writes whoever else does: of two that are to meet, or of one after another is killed."""


class Program(Process):
    """A program with the endpoints of all of ours; it ends with `stop` or `kill`, or with this process.

    command: which one. kubeconfig: None for the account's own; another one leads through a proxy. options: further
    flags. name: of the log. launcher: what runs in the place of `dra`, with its arguments.
    """

    def __init__(
        self,
        command: Sequence[str],
        plane: ControlPlane,
        options: Sequence[str],
        kubeconfig: Path | None,
        name: str,
        *,
        launcher: Sequence[str | Path] = (PROGRAM,),
    ) -> None:
        (self._port,) = free_ports(1)
        reach = [f"--kubeconfig={kubeconfig or plane.kubeconfig(OURS)}", f"--health-address=127.0.0.1:{self._port}"]
        log = plane.folder / "logs" / f"{name}-{self._port}.log"
        super().__init__(name, [*launcher, *command, *reach, *options], log)

    def await_readyz(self) -> None:
        """Wait until it is ready. Raises StartError with the end of its log."""
        self.await_ready(self.is_ready)

    def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        return says_ok(self._port, "/readyz")

    @property
    def url(self) -> str:
        """Where it serves probes and metrics."""
        return f"http://127.0.0.1:{self._port}"

    def reported(self, path: str) -> str:
        """What it answers to a GET, such as of /metrics or /debug/queue, with whatever status."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode()


class Scheduler(Program):
    """`dra scheduler run`."""

    def __init__(
        self,
        plane: ControlPlane,
        options: Sequence[str] = (),
        *,
        kubeconfig: Path | None = None,
        name: str = "dra-scheduler",
        launcher: Sequence[str | Path] = (PROGRAM,),
    ) -> None:
        super().__init__(["scheduler", "run"], plane, options, kubeconfig, name, launcher=launcher)


class Extender(Program):
    """`dra extender serve`."""

    def __init__(
        self,
        plane: ControlPlane,
        options: Sequence[str] = (),
        *,
        kubeconfig: Path | None = None,
        name: str = "dra-extender",
        launcher: Sequence[str | Path] = (PROGRAM,),
    ) -> None:
        super().__init__(["extender", "serve"], plane, options, kubeconfig, name, launcher=launcher)


class Guard(Program):
    """`dra guard serve`. port: of the webhook. options: those that it was started with."""

    def __init__(
        self,
        plane: ControlPlane,
        port: int,
        options: Sequence[str] = (),
        *,
        kubeconfig: Path | None = None,
        name: str = "dra-guard",
        launcher: Sequence[str | Path] = (PROGRAM,),
    ) -> None:
        self.port = port
        self.options = options
        command = ["guard", "serve", f"--address=127.0.0.1:{port}"]
        super().__init__(command, plane, options, kubeconfig or plane.kubeconfig(GUARD), name, launcher=launcher)


@contextmanager
def scheduler(
    plane: ControlPlane, options: Sequence[str] = (), *, kubeconfig: Path | None = None, name: str = "dra-scheduler"
) -> Iterator[Scheduler]:
    """The scheduler while the context is open, ready to place pods."""
    program = Scheduler(plane, options, kubeconfig=kubeconfig, name=name)
    try:
        program.await_readyz()
        yield program
    finally:
        program.stop()
