"""A client that does nothing but the three writes which an allocation takes: the ceiling for any that decides as well.

It lists the objects once, knows beforehand which pod gets which device, and writes for many pods at a time: the
claim's finalizer, its allocation and reservation, the pod's binding. No watch, no event, no check, no retry, nothing
of the scheduler's own client. It then waits to be ended.
Source: the writes of kube-scheduler's DynamicResources and DefaultBinder plugins.
"""

import argparse
import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import orjson
import uvloop

from benchmarks.endtoend.workload import DRIVER, NAMESPACE, REQUEST, SCHEDULER, Json, Taken, place

PODS_AT_ONCE = 32
_CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_FINALIZER = "resource.kubernetes.io/delete-protection"


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--ca-file", type=Path, required=True)
    parser.add_argument("--token-file", type=Path, required=True)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(arguments.server, arguments.ca_file, arguments.token_file.read_text()))


async def _run(server: str, ca_file: Path, token: str) -> None:
    tls = ssl.create_default_context(cafile=ca_file)
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(
        server, connector=aiohttp.TCPConnector(limit=PODS_AT_ONCE, ssl=tls), headers=headers
    ) as session:
        jobs = await _jobs(session)
        async with asyncio.TaskGroup() as workers:
            for _ in range(PODS_AT_ONCE):
                workers.create_task(_work(session, jobs))
        await asyncio.Event().wait()


async def _jobs(session: aiohttp.ClientSession) -> Iterator[tuple[Json, Json, Taken]]:
    """Pods that have no node, with their claims and places."""
    nodes = len((await _call(session, "GET", "/api/v1/nodes"))["items"])
    claims = {claim["metadata"]["name"]: claim for claim in (await _call(session, "GET", _CLAIMS))["items"]}
    pods = [pod for pod in (await _call(session, "GET", _PODS))["items"] if pod["spec"]["schedulerName"] == SCHEDULER]
    return iter([(pod, claims[_claim_name(pod)], place(number, nodes)) for number, pod in enumerate(pods)])


def _claim_name(pod: Json) -> str:
    return str(pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"])


async def _work(session: aiohttp.ClientSession, jobs: Iterator[tuple[Json, Json, Taken]]) -> None:
    for pod, claim, where in jobs:  # all workers take from the same iterator
        path = f"{_CLAIMS}/{claim['metadata']['name']}"
        protected = {**claim, "metadata": {**claim["metadata"], "finalizers": [_FINALIZER]}}
        stored = await _call(session, "PUT", path, protected)
        await _call(session, "PUT", f"{path}/status", {**stored, "status": _status(pod, where)})
        await _call(session, "POST", f"{_PODS}/{pod['metadata']['name']}/binding", _binding(pod, where))


def _status(pod: Json, where: Taken) -> Json:
    """Allocated, and reserved for the pod."""
    result = {"request": REQUEST, "driver": DRIVER, "pool": where.node, "device": where.device}
    on_node = {"key": "metadata.name", "operator": "In", "values": [where.node]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_node]}]},
        "allocationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    return {"allocation": allocation, "reservedFor": [consumer]}


def _binding(pod: Json, where: Taken) -> Json:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    target = {"apiVersion": "v1", "kind": "Node", "name": where.node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


async def _call(session: aiohttp.ClientSession, method: str, path: str, body: Json | None = None) -> Json:
    content = None if body is None else orjson.dumps(body)
    async with session.request(method, path, data=content, headers={"Content-Type": "application/json"}) as answer:
        text = await answer.read()
        if not answer.ok:
            raise ConnectionError(f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
        found: Json = orjson.loads(text)
        return found


if __name__ == "__main__":
    main()
