"""What is compared: a program that gives pods devices and nodes."""

import http.client
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process


@dataclass(frozen=True, slots=True)
class Running:
    """Started programs, most often one. metrics: reads what the one that decides tells to Prometheus, if anything."""

    processes: Sequence[Process]
    metrics: Callable[[], str]


class Contender(Protocol):
    """One program, or several that work together, that can be measured."""

    @property
    def name(self) -> str:
        """As people know it."""

    @property
    def column(self) -> str:
        """Its key in the results; "ours", "peer" and "ceiling" are those that ratios are made of."""

    @property
    def schedulers(self) -> Sequence[str]:
        """What the pods name in `spec.schedulerName`, by turns."""

    def start(self, plane: ControlPlane) -> Running:
        """Start it on the control plane; it runs until it is stopped, also when nothing is left to do."""


def metrics_of(port: int, ca_file: Path | None = None, token: str = "") -> str:
    """The metrics at a port of the loopback interface. ca_file: where it speaks TLS, what vouches for it."""
    if ca_file is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    else:
        tls = ssl.create_default_context(cafile=ca_file)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=tls)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    if answer.status != http.client.OK:
        raise ConnectionError(f"/metrics at port {port}: {answer.status} {text}")
    return text
