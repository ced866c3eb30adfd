"""A limit that a ConfigMap says and that changes: two schedulers never exceed it together, at whatever revision."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane.contents import ensure_namespace, manifests, restore
from tests.controlplane.door import Door
from tests.controlplane.ours import WITHOUT_LEASE, Guard, Scheduler
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, POD, Json, Kind, RestClient
from tests.controlplane.rights import BASE, grant
from tests.integration.guard.scene import PATIENT, await_answers, holders, serve
from tests.integration.live.crowd import GPU, NAMESPACE, WITHIN_S, a_pod, empty, furnish, placed, send
from tests.integration.live.history import History

NODES, DEVICES, PODS = 4, 4, 24
FEW, MORE = 5, 9
OURS, STOCK = "dra-scheduler", "default-scheduler"
CONFIG_MAP = Kind("v1", "ConfigMap")
KEPT = f"ConfigMap {NAMESPACE}/dra-limits cannot be read, the 1 limits that were read from it last stay in force: "
EXCEEDED = f"limit crowd-gpus is exceeded: {MORE} of {FEW} in use"
FOLLOWED = f"limitsConfigMap: {NAMESPACE}/dra-limits\n"


def limits(most: int) -> Json:
    text = f"[{{name: crowd-gpus, namespaces: {{names: [{NAMESPACE}]}}, count: {{driver: {GPU}}}, most: {most}}}]"
    metadata = {"name": "dra-limits", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"limits": text}}


@pytest.fixture
def fleet(plane: ControlPlane, api: RestClient) -> Iterator[RestClient]:
    """Four nodes with four devices each, of which the ConfigMap leaves a few."""
    grant(api)
    restore(api, manifests(BASE.parent / "limits" / "rbac.yaml"))
    ensure_namespace(api, NAMESPACE)
    api.create(limits(FEW))
    furnish(api, NODES, DEVICES)
    yield api
    plane.stop("kube-scheduler")
    empty(plane)
    api.delete(CONFIG_MAP, "dra-limits", NAMESPACE)


@pytest.fixture
def guard(plane: ControlPlane, fleet: RestClient, way: Door, tmp_path: Path) -> Iterator[Guard]:
    """The guard, which follows the ConfigMap."""
    assert fleet
    config = tmp_path / "guard.yaml"
    config.write_text(PATIENT + FOLLOWED)
    running = serve(plane, way, free_ports(1)[0], f"--config={config}")
    try:
        await_answers(plane)
        yield running
    finally:
        running.stop()


@pytest.fixture
def ours(plane: ControlPlane, guard: Guard, tmp_path: Path) -> Iterator[Scheduler]:
    """Our scheduler, which follows it too."""
    assert guard
    config = tmp_path / "scheduler.yaml"
    head = "apiVersion: dra-scheduler.dev/v1alpha1\nkind: DraSchedulerConfiguration\n"
    config.write_text(head + FOLLOWED)
    running = Scheduler(plane, [*WITHOUT_LEASE, f"--config={config}"])
    running.await_readyz()
    yield running
    running.stop()


def most_in_use(events: list[Json], until: int) -> int:
    """The most devices that were allocated at one moment before that revision."""
    claims: dict[str, Json] = {}
    most = 0
    for event in events:
        found = event["object"]
        if found["kind"] != CLAIM.kind or int(found["metadata"]["resourceVersion"]) >= until:
            continue
        claims[found["metadata"]["name"]] = found
        if event["type"] == "DELETED":
            del claims[found["metadata"]["name"]]
        most = max(most, len(holders(list(claims.values()))))
    return most


def shows_all_in_use(metrics: str) -> bool:
    labels = 'limit="crowd-gpus",namespace=""'
    return all(f"dra_scheduler_limit_{name}{{{labels}}} {MORE}.0\n" in metrics for name in ("used", "most"))


def test_two_schedulers_stay_within_a_limit_that_changes(
    plane: ControlPlane, fleet: RestClient, guard: Guard, ours: Scheduler
) -> None:
    plane.start_scheduler({"profiles": [{"schedulerName": STOCK}]})
    with History(fleet) as history:
        send(plane, [a_pod(f"pod-{number}", GPU, scheduler=(OURS, STOCK)[number % 2]) for number in range(PODS)])
        fleet.await_all(POD, lambda pods: len(placed(pods)) == FEW, NAMESPACE, WITHIN_S)
        changed = fleet.replace({**fleet.get(CONFIG_MAP, "dra-limits", NAMESPACE), "data": limits(MORE)["data"]})
        fleet.await_all(POD, lambda pods: len(placed(pods)) == MORE, NAMESPACE, WITHIN_S)
    events, version = history.events(), int(changed["metadata"]["resourceVersion"])
    assert most_in_use(events, version) == FEW
    assert most_in_use(events, 1 << 63) == MORE
    fleet.replace({**fleet.get(CONFIG_MAP, "dra-limits", NAMESPACE), "data": limits(-1)["data"]})
    for program in (guard, ours):  # the limit that was read last stays, and both say so
        poll_until(lambda told: KEPT in told, partial(program.reported, "/readyz?verbose"), "the limit stays")
        # Polled: attempts that are under way count as well, and a watch may be behind.
        poll_until(shows_all_in_use, partial(program.reported, "/metrics"), "all of the limit is in use")
    fleet.replace({**fleet.get(CONFIG_MAP, "dra-limits", NAMESPACE), "data": limits(FEW)["data"]})
    for program in (guard, ours):
        poll_until(lambda told: EXCEEDED in told, partial(program.reported, "/readyz?verbose"), "it is exceeded now")
