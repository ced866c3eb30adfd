"""The kinds that are watched, on a fleet that a real API server holds, in each version that it serves."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler import kinds
from scheduler.client.api_resources import (
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    Resource,
    claims,
    classes,
    slices,
    taint_rules,
)
from scheduler.client.connection import Connection, connect
from scheduler.client.watcher import Reflector, Watcher
from tests.controlplane.contents import manifests, restore
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.rest import CLAIM, CLASS, NAMESPACE, NODE, POD, SERVICE, SLICE, Kind, RestClient
from tests.integration.conftest import FLEET

Decode = Callable[[Mapping[str, Any]], object]


async def listed(connection: Connection, resource: Resource, decode: Decode) -> Reflector[object]:
    reflector: Reflector[object] = Reflector(Watcher(connection, resource, decode, lambda: 0.5), time.monotonic)
    running = asyncio.create_task(reflector.run())
    await asyncio.wait_for(reflector.store.synced.wait(), TIMEOUT_S)
    running.cancel()
    await asyncio.wait([running])
    return reflector


def names(kubeconfig: Path, resource: Resource, decode: Decode) -> list[str]:
    """The names of what was decoded; nothing may be refused."""

    async def run() -> list[str]:
        async with connect(kubeconfig=kubeconfig) as connection:
            store = (await listed(connection, resource, decode)).store
            assert not store.undecoded
            return sorted(str(key) for key in store.entries)

    return asyncio.run(run())


def names_of(api: RestClient, kind: Kind) -> list[str]:
    found = [item["metadata"] for item in api.list(kind)]
    return sorted(f"{one['namespace']}/{one['name']}" if "namespace" in one else one["name"] for one in found)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_fleet_is_read_without_a_refusal(plane: ControlPlane, api: RestClient, version: str) -> None:
    restore(api, manifests(FLEET))
    api.await_all(CLAIM, lambda found: sum("generateName" in claim["metadata"] for claim in found) == 6)
    kubeconfig = plane.kubeconfig()
    assert names(kubeconfig, claims(version), kinds.claim_of) == names_of(api, CLAIM)
    assert names(kubeconfig, slices(version), kinds.slice_of) == names_of(api, SLICE)
    assert names(kubeconfig, classes(version), kinds.class_of) == names_of(api, CLASS)
    assert names(kubeconfig, PODS, kinds.pod_of) == names_of(api, POD)
    assert names(kubeconfig, NODES, kinds.node_of) == names_of(api, NODE)
    assert names(kubeconfig, NAMESPACES, kinds.namespace_of) == names_of(api, NAMESPACE)
    service, replica_set = (kinds.BY_NAME[name].watch_decoder for name in ("Service", "ReplicaSet"))
    assert names(kubeconfig, SERVICES, service) == names_of(api, SERVICE) != []
    assert names(kubeconfig, REPLICA_SETS, replica_set) == names_of(api, Kind("apps/v1", "ReplicaSet")) != []


@pytest.mark.parametrize("version", ["v1beta2", "v1alpha3"])
def test_taint_rules_are_read_in_each_version(plane: ControlPlane, api: RestClient, version: str) -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    rule = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "r"}}
    api.create({**rule, "spec": {"deviceSelector": {"driver": "gpu.example"}, "taint": taint}})
    assert names(plane.kubeconfig(), taint_rules(version), kinds.taint_rule_of) == ["r"]
