"""The load of a mixed soak: pods and groups come, run and go; nodes fail; limits and budgets change."""

import asyncio
from collections.abc import Coroutine
from itertools import count
from random import Random
from time import monotonic

import orjson

from tests.controlplane.rest import NODE, POD, Json
from tests.soak.client import MERGE, Call, Client
from tests.soak.furnish import TEAMS
from tests.soak.mix.judge import MixJudge
from tests.soak.mix.plan import MixArrival, MixPlan, limits, mix
from tests.soak.objects import create, delete, path_of
from tests.soak.revisions import Revision

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/dra-limits"
DOWN_S = 12.0
AGAIN_S = 0.5
_NODES = "/api/v1/nodes"
_GROUPS = "/apis/{version}/namespaces/{namespace}/podgroups"
_BUDGET = "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/budget/status"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_GONE = 404


def config_map(found: list[Json]) -> Json:
    """The ConfigMap with these limits."""
    metadata = {"name": "dra-limits", "namespace": "kube-system"}
    data = {"limits": orjson.dumps(found).decode()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class MixLoad:
    """Lets all that happen. created, bound, recreated, failures, changes: how many; failed: calls that were refused."""

    def __init__(self, client: Client, plan: MixPlan, judge: MixJudge, group_version: str) -> None:
        self.created = self.bound = self.held_back = self.recreated = self.failures = self.changes = 0
        self.failed: list[str] = []
        self._client, self._plan, self._judge, self._version = client, plan, judge, group_version
        self._arrived: dict[str, MixArrival] = {}
        self._uids: dict[str, str] = {}
        self._on: dict[str, set[str]] = {}
        self._left: dict[str, set[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[str] = set()
        self._until_s = 0.0
        self._chance = Random(f"mix trouble {plan.seed}")  # noqa: S311 - no secret

    async def come(self, until_s: float) -> None:
        """Let all of it happen until that moment of the monotonic clock."""
        self._until_s = until_s
        await asyncio.gather(self._arrivals(), self._node_failures(), self._limit_changes())

    async def _arrivals(self) -> None:
        began, number = monotonic(), 0
        for arrival in mix(Random(f"mix {self._plan.seed}"), self._plan, self._version):  # noqa: S311 - no secret
            due = began + number / self._plan.good_rate
            if due > self._until_s:
                return
            await asyncio.sleep(due - monotonic())
            number += len(arrival.pods)
            if self._judge.waiting() < self._plan.pending:
                self._start(self._arrive(arrival))
            else:
                self.held_back += len(arrival.pods)

    async def _arrive(self, arrival: MixArrival) -> None:
        if arrival.group:
            await self._call(Call("POST", self._groups(arrival.group), orjson.dumps(arrival.group)))
            self._left[self._group_path(arrival.group)] = {path_of(pod) for pod in arrival.pods}
        for pod in arrival.pods:
            await self._create(pod, arrival)
        if arrival.leaves_s is not None:
            await asyncio.sleep(arrival.leaves_s)
            for pod in arrival.pods:
                await self._delete(path_of(pod))

    async def _create(self, pod: Json, arrival: MixArrival) -> None:
        self._arrived[path_of(pod)] = arrival
        self.created += 1
        await self._call(create(pod))

    # -- what is seen

    def see(self, revision: Revision) -> None:
        """Take a revision: a bound pod starts to run, a victim comes again, and one that ends is ended."""
        raw = revision.object
        path = path_of(raw)
        if raw["kind"] != POD.kind or path not in self._arrived:
            return
        uid, node = raw["metadata"]["uid"], raw["spec"].get("nodeName")
        if revision.is_gone:
            self._gone(path, raw)
        elif "deletionTimestamp" in raw["metadata"]:
            if uid not in self._ending:
                self._ending.add(uid)
                self._start(self._end(path, raw["metadata"].get("deletionGracePeriodSeconds", 0)))
        elif node and path not in self._uids:
            self.bound += 1
            self._uids[path] = uid
            self._on.setdefault(node, set()).add(path)
            self._start(self._run(path, uid, self._arrived[path].runs_s))

    def _gone(self, path: str, raw: Json) -> None:
        arrival = self._arrived.pop(path)
        self._uids.pop(path, None)
        self._ending.discard(raw["metadata"]["uid"])
        self._on.get(raw["spec"].get("nodeName") or "", set()).discard(path)
        told = (raw.get("status") or {}).get("conditions") or ()
        is_victim = any(one.get("reason") == "PreemptionByScheduler" for one in told)
        if is_victim and monotonic() < self._until_s and not arrival.group:
            self.recreated += 1
            self._start(self._again(raw, arrival))
        if arrival.group:
            left = self._left[self._group_path(arrival.group)]
            left.discard(path)
            if not left:
                self._start(self._without_group(self._group_path(arrival.group)))

    async def _again(self, raw: Json, arrival: MixArrival) -> None:
        """As a controller makes a pod again, under a new name."""
        first = next(
            one for one in arrival.pods if one["metadata"]["name"] == raw["metadata"]["name"].partition(".")[0]
        )
        number = int(raw["metadata"]["name"].partition(".")[2] or 0) + 1
        name = f"{first['metadata']['name']}.{number}"
        await asyncio.sleep(AGAIN_S)
        await self._create({**first, "metadata": {**first["metadata"], "name": name}}, arrival)

    async def _end(self, path: str, grace_s: float) -> None:
        """As a kubelet ends a pod."""
        await asyncio.sleep(grace_s)
        await self._call(delete(path), _GONE)

    async def _run(self, path: str, uid: str, runs_s: float) -> None:
        await asyncio.sleep(runs_s)
        if self._uids.get(path) == uid:
            await self._delete(path)

    async def _delete(self, path: str) -> None:
        answer = await self._client.send(Call("GET", path))
        if answer.is_yes:
            uid = orjson.loads(answer.body)["metadata"]["uid"]
            self._judge.deleted(uid)
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            await self._call(Call("DELETE", path, orjson.dumps(body)), _GONE)

    # -- groups

    def _groups(self, group: Json) -> str:
        return _GROUPS.format(version=group["apiVersion"], namespace=group["metadata"]["namespace"])

    def _group_path(self, group: Json) -> str:
        return f"{self._groups(group)}/{group['metadata']['name']}"

    async def _without_group(self, path: str) -> None:
        """No controller runs here that lets its finalizer go."""
        await self._call(Call("PATCH", path, b'{"metadata":{"finalizers":null}}', MERGE), _GONE)
        await self._call(delete(path), _GONE)

    # -- what changes

    async def _node_failures(self) -> None:
        while monotonic() + self._plan.nodes_fail_every_s < self._until_s:
            await asyncio.sleep(self._plan.nodes_fail_every_s)
            name = f"node-{self._chance.randrange(self._plan.nodes):03d}"
            is_removed = self._chance.random() < 0.5
            self._start(self._fail(name, is_removed=is_removed))

    async def _fail(self, name: str, *, is_removed: bool) -> None:
        """It is unreachable, its pods are deleted as by a controller, and perhaps it goes itself; then it is back."""
        path = f"{_NODES}/{name}"
        found = await self._client.send(Call("GET", path))
        if not found.is_yes:
            return
        self.failures += 1
        self._judge.fails(name, monotonic())
        taints = [{"key": _UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        await self._call(Call("PATCH", path, orjson.dumps({"spec": {"taints": taints}}), MERGE))
        until = monotonic() + DOWN_S
        for _ in count():
            for pod in sorted(self._on.get(name, ())):
                await self._delete(pod)
            if monotonic() > until:
                break
            await asyncio.sleep(1.0)
        await self._restore(path, orjson.loads(found.body), is_removed=is_removed)
        self._judge.is_back(name, monotonic())

    async def _restore(self, path: str, before: Json, *, is_removed: bool) -> None:
        if not is_removed:
            await self._call(Call("PATCH", path, b'{"spec":{"taints":null}}', MERGE))
            return
        await self._call(delete(path))
        kept = {"name": before["metadata"]["name"], "labels": before["metadata"]["labels"]}
        node = {"apiVersion": NODE.api_version, "kind": NODE.kind, "metadata": kept}
        await self._call(Call("POST", _NODES, orjson.dumps(node)))
        await self._call(Call("PATCH", f"{path}/status", orjson.dumps({"status": before["status"]}), MERGE))

    async def _limit_changes(self) -> None:
        while True:
            await self.change_limits()
            if monotonic() + self._plan.limits_change_every_s > self._until_s:
                return
            await asyncio.sleep(self._plan.limits_change_every_s)

    async def change_limits(self) -> None:
        """Other limits, and other budgets."""
        found = limits(self._chance)
        self._judge.limits.change(found, monotonic())
        await self._call(Call("PUT", CONFIG_MAP, orjson.dumps(config_map(found))))
        self._judge.limits.settle(monotonic())
        self.changes += 1
        for namespace in TEAMS:
            status = {"status": {"disruptionsAllowed": self._chance.randint(0, 3)}}
            await self._call(Call("PATCH", _BUDGET.format(namespace=namespace), orjson.dumps(status), MERGE))

    # -- calls

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, call: Call, done: int = 0) -> None:
        answer = await self._client.send(call)
        if not answer.is_yes and answer.status != done:
            self.failed.append(f"{call.method} {call.path}: {answer.status} {answer.body[:200]!r}")

    async def stop(self) -> None:
        """Let nothing go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
