"""A limit of a ConfigMap, which the extender awaits, keeps and follows."""

from collections.abc import Iterator

import pytest

from tests.controlplane.contents import ensure_namespace, manifests, restore
from tests.controlplane.ours import Extender
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import Json, Kind
from tests.integration.conftest import ROOT
from tests.integration.extender.beside import Beside, Door
from tests.integration.live.world import DRIVER, NAMESPACE

CONFIG_MAP = Kind("v1", "ConfigMap")
NAME = "dra-limits"
SETTINGS = {"limitsConfigMap": f"{NAMESPACE}/{NAME}"}


def limits(most: object) -> Json:
    text = f"[{{name: gpus, namespaces: {{names: [{NAMESPACE}]}}, count: {{driver: {DRIVER}}}, most: {most}}}]"
    return {"limits": text}


def a_config_map(data: Json) -> Json:
    metadata = {"name": NAME, "namespace": NAMESPACE}
    return {"apiVersion": CONFIG_MAP.api_version, "kind": CONFIG_MAP.kind, "metadata": metadata, "data": data}


@pytest.fixture(scope="module")
def extender(plane: ControlPlane, proxy: Proxy, door: Door) -> Iterator[Extender]:
    """The module's extender, which finds a ConfigMap that it cannot read, and awaits one that allows one device."""
    api = plane.client()
    restore(api, manifests(ROOT / "manifests" / "limits" / "rbac.yaml"))
    ensure_namespace(api, NAMESPACE)
    api.create(a_config_map(limits(-1)))
    program = door.extender(plane, proxy)
    try:
        problem = f"{NAMESPACE}/{NAME} cannot be read: data[limits]: limits[0].most: must not be negative (got -1)"
        poll_until(lambda told: problem in told, lambda: _readyz(program), "the ConfigMap cannot be read")
        api.change(CONFIG_MAP, NAME, NAMESPACE, lambda found: {**found, "data": limits(1)})
        program.await_readyz()
        yield program
    finally:
        program.stop()
        api.delete(CONFIG_MAP, NAME, NAMESPACE)


def _readyz(program: Extender) -> str:
    try:
        return program.reported("/readyz?verbose")
    except OSError:  # it does not listen yet
        return ""


def test_claim_beyond_the_limit_is_refused_by_its_name_until_the_limit_is_raised(
    world: Beside, extender: Extender
) -> None:
    world.a_cluster(devices=3)
    for name in ("first", "second", "third"):
        world.a_claim(name)
    world.a_pod("first", "first")
    world.bound("first")
    world.a_pod("second", "second")
    world.refused("second", "limit gpus: 1 of 1 in use, 1 more requested")
    world.api.change(CONFIG_MAP, NAME, NAMESPACE, lambda found: {**found, "data": limits(2)})
    assert len({*world.devices_of("first"), *world.devices_of("second")}) == 2
    metrics = extender.reported("/metrics")
    for name in ("used", "most"):
        assert f'dra_scheduler_limit_{name}{{limit="gpus",namespace=""}} 2.0\n' in metrics
    world.api.delete(CONFIG_MAP, NAME, NAMESPACE)
    world.api.create(a_config_map(limits(-1)))
    kept = f"ConfigMap {NAMESPACE}/{NAME} cannot be read, the 1 limits that were read from it last stay in force: "
    poll_until(lambda told: kept in told, lambda: _readyz(extender), "the limits stay")
    assert 'dra_scheduler_watch_refused_objects{resource="configmaps"} 1.0\n' in extender.reported("/metrics")
    world.a_pod("third", "third")
    world.refused("third", "limit gpus: 2 of 2 in use, 1 more requested")
