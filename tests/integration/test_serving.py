"""Metrics are for those whom a real API server lets read them; probes are for everybody, whatever it does."""

import http.client
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane.certificates import Certificates
from tests.controlplane.contents import clear, manifests, restore
from tests.controlplane.faults import cut_before
from tests.controlplane.identities import DRIVER, EXTENDER, OURS, SECOND, Identity
from tests.controlplane.ours import Extender, Program, Scheduler
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import TIMEOUT_S, poll_until
from tests.controlplane.process import says_ok
from tests.controlplane.proxy import Proxy
from tests.controlplane.rights import BASE, grant

READER, STRANGER = DRIVER, SECOND
PROBES = ("/healthz", "/livez", "/readyz")
ATTACKERS = 40
GUARDED = ("/metrics", "/debug/queue", "/ui", "/ui/events")


@dataclass(frozen=True, slots=True)
class ServingServed:
    """A program over HTTPS, and who asks it."""

    plane: ControlPlane
    certificates: Certificates
    port: int

    def status(self, path: str, token: str = "") -> int:
        tls = self.certificates.context(None)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=TIMEOUT_S, context=tls)
        with closing(connection):
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status

    def status_for(self, path: str, identity: Identity) -> int:
        return self.status(path, self.plane.token_file(identity).read_text())


def a_binding(program: str, reader: Identity) -> dict[str, object]:
    """Lets the reader read the program's metrics, as an operator would."""
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": f"{program}-metrics-reader"}
    who = {"apiGroup": group, "kind": "User", "name": reader.user}
    head = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"{program}-reads"}}
    return {**head, "roleRef": role, "subjects": [who]}


@pytest.fixture(params=["scheduler", "extender"])
def served(
    request: pytest.FixtureRequest, plane: ControlPlane, proxy: Proxy, tmp_path: Path
) -> Iterator[ServingServed]:
    """Each program with the rights of its manifests, over HTTPS with a certificate that is given."""
    api, certificates, (port,) = plane.client(), Certificates(tmp_path), free_ports(1)
    files = {"tlsCertFile": str(certificates.server.certificate), "tlsPrivateKeyFile": str(certificates.server.key)}
    kind = {"scheduler": "DraSchedulerConfiguration", "extender": "DraExtenderConfiguration"}[request.param]
    config = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": kind, "secureServing": files}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    options = [f"--config={path}", f"--health-address=127.0.0.1:{port}"]
    program: Program
    if request.param == "scheduler":
        grant(api)
        program = Scheduler(plane, options, kubeconfig=proxy.kubeconfig(OURS))
    else:
        restore(api, manifests(BASE.parent / "extender" / "base" / "extender-rbac.yaml"))
        options.append(f"--address=127.0.0.1:{free_ports(1)[0]}")
        program = Extender(plane, options, kubeconfig=proxy.kubeconfig(EXTENDER))
    restore(api, [a_binding(f"dra-{request.param}", READER)])
    try:
        program.await_ready(lambda: says_ok(port, "/readyz", certificates.server_ca))
        yield ServingServed(plane, certificates, port)
    finally:
        program.stop()
        proxy.forget_rules()
        clear(plane)


def test_metrics_are_for_those_who_may_read_them_and_probes_for_everybody(served: ServingServed) -> None:
    assert [served.status(path) for path in PROBES] == [200] * 3
    assert [served.status(path) for path in GUARDED] == [401] * 4
    assert [served.status(path, "nobody's") for path in GUARDED] == [401] * 4
    assert [served.status_for(path, STRANGER) for path in GUARDED] == [403] * 4
    # The API server hears of rights some time after they were given, and what it said before counts for a while.
    for path in GUARDED:
        poll_until(lambda status: status == 200, partial(served.status_for, path, READER), f"{path} is read")
    assert served.status_for("/", READER) == 403


def test_invented_tokens_keep_nobody_out_who_was_let_in(served: ServingServed) -> None:
    poll_until(lambda status: status == 200, partial(served.status_for, GUARDED[0], READER), "metrics are read")
    with ThreadPoolExecutor(ATTACKERS) as attackers:
        invented = attackers.map(lambda number: served.status(GUARDED[0], f"invented-{number}"), range(10 * ATTACKERS))
        # Each path is a question of its own, which the API server has to answer during the attack.
        assert [served.status_for(path, READER) for path in GUARDED[1:]] == [200] * 3
        assert [served.status(path) for path in PROBES] == [200] * 3
        statuses = Counter(invented)
    assert statuses.keys() == {401, 503}
    assert statuses[401] < statuses[503]


def test_api_server_that_cannot_be_asked_lets_nobody_new_in_and_closes_no_probe(
    served: ServingServed, proxy: Proxy
) -> None:
    def status() -> int:
        return served.status_for("/metrics", READER)

    poll_until(lambda found: found == 200, status, "/metrics is read")
    for path in ("/tokenreviews$", "/subjectaccessreviews$"):
        proxy.on("POST", path, cut_before, times=None)
    assert served.status("/metrics", "somebody's") == 503
    poll_until(lambda found: found == 503, status, "what was let in before is asked for again")
    assert [served.status(path) for path in PROBES] == [200] * 3
    proxy.forget_rules()
    poll_until(lambda found: found == 200, status, "/metrics is read again")
