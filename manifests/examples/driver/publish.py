#!/usr/bin/env python3
"""A sample DRA driver, the half that publishes: what the hardware file says becomes ResourceSlices.

A real driver finds devices on its node and also prepares them for containers, on the kubelet's call; this one reads
them from a file and runs once, for all nodes. What it shows is the protocol of a pool: a change makes a new generation,
whose slices are all created before the old ones go, so that a scheduler sees either the old pool or the new one.
Needs the standard library alone. In a pod it finds the API server by itself.
Source: KEP-4381, ResourceSlice.spec.pool; https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation
"""

import argparse
import hashlib
import http.client
import json
import os
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
MANAGED_BY = "app.kubernetes.io/managed-by"
ME = "example-driver"
HARDWARE_HASH = "example.com/hardware"  # the API server may rewrite quantities: compare the hash instead
MAX_DEVICES = 128
MAX_DEVICES_WITH_MORE = 64  # where a device of the slice has taints or counters
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Json = dict[str, Any]  # Any: what an object holds depends on its kind


class RefusedError(Exception):
    """The API server refused a call; its own words are in the message."""


class Server:
    """The API server, as one service account sees it."""

    def __init__(self, url: str, ca_file: Path, token_file: Path) -> None:
        self._host = urlsplit(url).netloc
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._token = token_file.read_text().strip()

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Json:
        """The answer to one call; RefusedError where it is none."""
        connection = http.client.HTTPSConnection(self._host, timeout=30, context=self._tls)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise RefusedError(f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
        found: Json = json.loads(text)
        return found


@dataclass(frozen=True, slots=True)
class PublishedPool:
    """Devices of one driver that are reached in one way. owner: the node that they vanish with; None: of no node."""

    driver: str
    name: str
    reach: Mapping[str, Any]
    devices: Sequence[Mapping[str, Any]]
    owner: Mapping[str, Any] | None = None

    @property
    def hash(self) -> str:
        """A hash of all that is published: equal if nothing has to be written."""
        return hashlib.sha256(json.dumps([self.reach, self.devices], sort_keys=True).encode()).hexdigest()[:16]

    def slices(self, generation: int) -> Iterator[Json]:
        """The slices of one generation."""
        parts = chunks(self.devices)
        for index, devices in enumerate(parts):
            pool = {"name": self.name, "generation": generation, "resourceSliceCount": len(parts)}
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {
                    "name": f"{self.name.replace('/', '-')}-{self.driver}-{generation}-{index}",
                    "labels": {MANAGED_BY: ME},
                    "annotations": {HARDWARE_HASH: self.hash},
                    **({"ownerReferences": [self.owner]} if self.owner else {}),
                },
                "spec": {"driver": self.driver, "pool": pool, **self.reach, "devices": devices},
            }


def chunks(devices: Sequence[Mapping[str, Any]]) -> list[Sequence[Mapping[str, Any]]]:
    """The devices in as few slices as the API allows; an empty pool is one empty slice."""
    has_more = any("taints" in device or "consumesCounters" in device for device in devices)
    size = MAX_DEVICES_WITH_MORE if has_more else MAX_DEVICES
    return [devices[start : start + size] for start in range(0, max(len(devices), 1), size)]


def pools(hardware: Sequence[Mapping[str, Any]], nodes: Sequence[Json]) -> Iterator[PublishedPool]:
    """The pools that the hardware makes on these nodes: one a node for `onNodes`, one in all for `nodeSelector`."""
    for entry in hardware:
        driver, devices = entry["driver"], entry["devices"]
        if "nodeSelector" in entry:
            yield PublishedPool(driver, entry["pool"], {"nodeSelector": entry["nodeSelector"]}, devices)
            continue
        for node in nodes:
            name, uid = node["metadata"]["name"], node["metadata"]["uid"]
            if entry["onNodes"].items() <= node["metadata"].get("labels", {}).items():
                owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
                yield PublishedPool(driver, name, {"nodeName": name}, devices, owner)


def publish(server: Server, pool: PublishedPool, published: Sequence[Json]) -> str:
    """Bring the published slices of the pool up to date, and say what was done."""
    newest = max((slice_["spec"]["pool"]["generation"] for slice_ in published), default=0)
    current = [slice_ for slice_ in published if slice_["spec"]["pool"]["generation"] == newest]
    is_right = all(slice_["metadata"]["annotations"].get(HARDWARE_HASH) == pool.hash for slice_ in current)
    if is_right and len(current) == len(chunks(pool.devices)):
        withdraw(server, [slice_ for slice_ in published if slice_ not in current])
        return f"generation {newest}, unchanged"
    for slice_ in pool.slices(newest + 1):
        server.call("POST", SLICES, slice_)
    withdraw(server, published)
    return f"generation {newest + 1}, {len(pool.devices)} devices"


def withdraw(server: Server, slices: Sequence[Json]) -> None:
    """Delete the slices."""
    for slice_ in slices:
        server.call("DELETE", f"{SLICES}/{slice_['metadata']['name']}")


def run(server: Server, hardware: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Publish all pools, withdraw those that are no more, and say so line by line."""
    nodes = server.call("GET", "/api/v1/nodes")["items"]
    left: dict[tuple[str, str], list[Json]] = {}
    for slice_ in server.call("GET", f"{SLICES}?labelSelector={MANAGED_BY}%3D{ME}")["items"]:
        left.setdefault((slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]), []).append(slice_)
    for pool in pools(hardware, nodes):
        done = publish(server, pool, left.pop((pool.driver, pool.name), []))
        yield f"{pool.driver}/{pool.name}: {done}"
    for (driver, name), slices in left.items():
        withdraw(server, slices)
        yield f"{driver}/{name}: withdrawn"


def in_cluster() -> str | None:
    """The API server's address, in a pod."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://{host}:{port}" if host else None


def main() -> int:
    """Publish what the hardware file says; the exit code is 1 where the API server refused or was not reached."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description="Publish the devices of a hardware file as ResourceSlices.")
    parser.add_argument("hardware", nargs="?", type=Path, default=here / "hardware.json", help="default: %(default)s")
    parser.add_argument("--server", default=in_cluster(), required=in_cluster() is None, help="https://host:port")
    parser.add_argument("--ca-file", type=Path, default=ACCOUNT / "ca.crt", help="default: %(default)s")
    parser.add_argument("--token-file", type=Path, default=ACCOUNT / "token", help="default: %(default)s")
    options = parser.parse_args()
    try:
        server = Server(options.server, options.ca_file, options.token_file)
        for line in run(server, json.loads(options.hardware.read_text())):
            sys.stdout.write(f"{line}\n")
    except KeyError as missing:
        sys.stderr.write(f"{parser.prog}: {options.hardware}: an entry without {missing}\n")
        return 1
    except (OSError, ValueError, RefusedError) as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
