"""A control plane on this machine: etcd, kube-apiserver, kube-controller-manager, and kube-scheduler on demand.

All on free loopback ports and in a folder of its own, with real RBAC, admission and garbage collection; no kubelet, so
nodes are objects that tests make. Ready in seconds; everything that was started is stopped, last first, whatever
happens: the API server has to go before etcd, without which it would not end.
Source: the flags that Kubernetes 1.36 takes for this; those left out would taint nodes or want keys of their own.
"""

import http.client
import json
import socket
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import MappingProxyType
from typing import Self

from tests.controlplane.binaries import Binaries
from tests.controlplane.identities import (
    ADMIN,
    CONTROLLER_MANAGER,
    IDENTITIES,
    STOCK,
    Identity,
    write_kubeconfig,
    write_private,
    write_tokens,
)
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.process import Process, StartError, says_ok
from tests.controlplane.profiles import DEFAULT, ControlPlaneProfile
from tests.controlplane.rest import RestClient

DEVICE_CONTROLLERS = (
    "resourceclaim-controller",
    "device-taint-eviction-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
)
"""What claims need. Not the node lifecycle: without a kubelet it would find every node unreachable."""

WORKLOAD_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
)
"""What makes pods of workloads."""

VOLUME_CONTROLLERS = ("persistentvolume-binder-controller", "ephemeral-volume-controller")
"""What binds volumes to claims, and makes claims for ephemeral volumes."""

# ServiceAccount would mount tokens, TaintNodesByCondition keep every pod from nodes that no kubelet reports,
# and DefaultTolerationSeconds write into pods what a test did not.
_NOT_ADMITTING = "ServiceAccount,TaintNodesByCondition,DefaultTolerationSeconds"


class ControlPlane:
    """A running control plane while its context is open.

    folder: for data, logs and kubeconfigs; has to be empty or absent. flags: further flags by component, such as
    {"kube-apiserver": ["--enable-priority-and-fairness=false"]}. environment: of all components, beside this process's.
    """

    def __init__(
        self,
        binaries: Binaries,
        folder: Path,
        profile: ControlPlaneProfile = DEFAULT,
        controllers: Sequence[str] = DEVICE_CONTROLLERS + WORKLOAD_CONTROLLERS + VOLUME_CONTROLLERS,
        flags: Mapping[str, Sequence[str]] | None = None,
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        self.profile = profile
        self._binaries = binaries
        self._controllers = controllers
        self._flags = flags or {}
        self._environment = environment
        self._started = ExitStack()
        self._processes: list[Process] = []
        self._clients: dict[Identity, RestClient] = {}
        self._own: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._tokens = write_tokens(self.folder / "tokens.csv", IDENTITIES)
        self._clients.clear()
        self._etcd_port, self._peer_port, self._port, self._manager_port = free_ports(4)
        with self._started:
            self._start_etcd()
            self._start_apiserver()
            self._start_controller_manager()
            self._own = self._keys()
            self._started = self._started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def etcd_port(self) -> int:
        """Where etcd answers its clients, in plain HTTP too."""
        return self._etcd_port

    @property
    def ca_file(self) -> Path:
        """What vouches for the API server's certificate."""
        return self.folder / "apiserver" / "apiserver.crt"

    @property
    def key_file(self) -> Path:
        """The private key of the API server's certificate."""
        return self.folder / "apiserver" / "apiserver.key"

    def token_file(self, identity: Identity) -> Path:
        """The path of a file with the bearer token of one of `IDENTITIES`, as a pod finds its own."""
        path = self.folder / f"{identity.name}.token"
        write_private(path, self._tokens[identity])
        return path

    def client(self, identity: Identity = ADMIN) -> RestClient:
        """A client that speaks for the identity; always the same one, which knows what the server serves."""
        if identity not in self._clients:
            self._clients[identity] = RestClient(self.server, self.ca_file, self._tokens[identity])
        return self._clients[identity]

    def stored(self) -> frozenset[str]:
        """The resources of which etcd keeps objects, such as pods, without those that were there from the start."""
        return frozenset(key.split("/")[2] for key in self._keys() - self._own)

    def _keys(self) -> frozenset[str]:
        """The keys of all objects, such as /registry/pods/default/web."""
        first, end = (b64encode(key).decode() for key in (b"/registry/", b"/registry0"))
        wanted = {"key": first, "range_end": end, "keys_only": True}
        with closing(http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=TIMEOUT_S)) as connection:
            connection.request("POST", "/v3/kv/range", json.dumps(wanted))
            found = json.load(connection.getresponse())["kvs"]
        return frozenset(b64decode(entry["key"]).decode() for entry in found)

    def kubeconfig(self, identity: Identity = ADMIN) -> Path:
        """The path of a kubeconfig for the identity."""
        path = self.folder / f"{identity.name}.kubeconfig"
        write_kubeconfig(path, identity, server=self.server, ca_file=self.ca_file, token=self._tokens[identity])
        return path

    def start_scheduler(
        self,
        configuration: Mapping[str, object],
        port: int | None = None,
        flags: Sequence[str] = (),
        identity: Identity = STOCK,
    ) -> Process:
        """Start kube-scheduler; it ends with the control plane, or with `stop`.

        configuration: fields of a KubeSchedulerConfiguration; how to reach the server is filled in if it is left out.
        port: where it serves health and metrics; None: any that is free. flags: further ones; gates come on top of the
        profile's.
        """
        connection = configuration.get("clientConnection") or {}
        assert isinstance(connection, Mapping)
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **configuration,
            "clientConnection": {"kubeconfig": str(self.kubeconfig(identity)), **connection},
        }
        path = self.folder / "kube-scheduler.json"
        path.write_text(json.dumps(document))
        used_port = free_ports(1)[0] if port is None else port
        return self._start_client("kube-scheduler", self._binaries.scheduler, used_port, [f"--config={path}", *flags])

    def stop(self, name: str) -> None:
        """Stop the programs of that name, such as kube-controller-manager, while the others go on."""
        for process in self._processes:
            if process.name == name:
                process.stop()

    def restart_api_server(self) -> None:
        """Kill the API server and start it again, at the same address and over the same data; it is ready then."""
        self._kill("kube-apiserver")
        self._start_apiserver()

    def restart_etcd(self) -> None:
        """Kill etcd and start it again over the same data; it is ready then."""
        self._kill("etcd")
        self._start_etcd()

    def _kill(self, name: str) -> None:
        (running,) = (one for one in self._processes if one.name == name and one.is_running)
        running.kill()
        self._processes.remove(running)

    def running(self) -> list[str]:
        """The names of the programs that run."""
        return [process.name for process in self._processes if process.is_running]

    def pids(self) -> dict[str, int]:
        """The process ids of the programs that run, by name; only Linux tells them."""
        return {process.name: process.pid for process in self._processes if process.is_running}

    def failed(self) -> str:
        """What to say of programs that ended though nobody stopped them; empty while there is none."""
        return "\n".join(f"{p.name} ended; {p.tail()}" for p in self._processes if p.ended_by_itself)

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        flags = [
            *("--name=try", f"--data-dir={self.folder / 'etcd'}"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=try={peer}"),
            *("--unsafe-no-fsync", "--log-level=warn"),  # what is lost with the machine's power may be lost
        ]
        process = self._start("etcd", self._binaries.etcd, flags)
        self._await(process, self._etcd_port, "/health", None)

    def _start_apiserver(self) -> None:
        folder = self.folder / "apiserver"
        # The server makes its key before it reads the one for service accounts: one key serves both.
        key = self.key_file
        flags = [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            *(f"--secure-port={self._port}", "--bind-address=127.0.0.1", f"--cert-dir={folder}"),
            *(f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=RBAC"),
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            *("--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24"),
            *(f"--disable-admission-plugins={_NOT_ADMITTING}", "--endpoint-reconciler-type=none"),
            *self.profile.version_flags(),
            *self.profile.flags(),
        ]
        process = self._start("kube-apiserver", self._binaries.apiserver, flags)
        self._await(process, self._port, "/readyz", self.ca_file)

    def _start_controller_manager(self) -> None:
        flags = [
            f"--kubeconfig={self.kubeconfig(CONTROLLER_MANAGER)}",
            f"--service-account-private-key-file={self.folder / 'apiserver' / 'apiserver.key'}",
            *(f"--controllers={','.join(self._controllers)}", "--use-service-account-credentials=true"),
            # As it comes it makes the claims of ten pods a second.
            *("--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000"),
        ]
        program = self._binaries.controller_manager
        self._start_client("kube-controller-manager", program, self._manager_port, flags)

    def _start_client(self, name: str, program: Path, port: int, flags: Sequence[str]) -> Process:
        """Start a component that serves its health, and nothing that needs more than a token to ask for."""
        folder = self.folder / name
        serving = [f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={folder}"]
        asking = ["--authentication-skip-lookup=true", *self.profile.flags()]
        process = self._start(name, program, [*serving, *asking, *flags])
        self._await(process, port, "/healthz", folder / f"{name}.crt")
        return process

    def _start(self, name: str, program: Path, flags: Sequence[str]) -> Process:
        command: list[str | Path] = [program, *flags, *self._flags.get(name, ())]
        process = Process(name, command, self.folder / "logs" / f"{name}.log", self._environment)
        self._started.callback(process.stop)
        self._processes.append(process)
        return process

    def _await(self, process: Process, port: int, path: str, ca_file: Path | None) -> None:
        """Wait until the process answers; what it waits for itself may be another that has ended."""

        def answers() -> bool:
            if failed := self.failed():
                raise StartError(failed)
            return says_ok(port, path, ca_file)

        process.await_ready(answers)


def free_ports(number: int) -> list[int]:
    """Ports of the loopback interface for programs that listen there soon; for a minute nobody else is given them."""
    with ExitStack() as stack:
        return [_reserved(stack.enter_context(socket.create_server(("127.0.0.1", 0)))) for _ in range(number)]


def _reserved(listening: socket.socket) -> int:
    """Its port: a connection that was closed on this side keeps it from all but who asks for just this one.

    Source: RFC 9293 3.6.1, TIME-WAIT; SO_REUSEADDR, as all who listen set it.
    """
    address = listening.getsockname()
    with socket.create_connection(address):
        listening.accept()[0].close()
    return int(address[1])
