"""`make soak MIX=1`: priorities, groups, budgets and limits that change, on a fleet whose devices are short.

Two schedulers with names of their own place the pods, one of them is killed now and then, nodes fail, and a guard
stands before both. Each revision of pods and claims is judged (`judge.py`). Exit codes and output: as of `make soak`.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import click

from tests.controlplane.binaries import Binaries
from tests.controlplane.contents import manifests, restore
from tests.controlplane.door import door
from tests.controlplane.guarded import WEBHOOK, install
from tests.controlplane.identities import ADMIN
from tests.controlplane.ours import Guard
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.profiles import ALL, RELEASE
from tests.controlplane.rest import NAMESPACE, SLICE, TEMPLATE, Kind
from tests.controlplane.rights import BASE, grant
from tests.soak import figures
from tests.soak.checker import HELD_TWICE, WITHOUT_DEVICES, Checker
from tests.soak.client import Client
from tests.soak.facts import reported_of
from tests.soak.furnish import GPU, TEAMS, an_object, classes, devices_of_all_nodes, fleet, request, requests_of
from tests.soak.history import History
from tests.soak.inventory import inventory_of
from tests.soak.mix.judge import RULES, MixJudge
from tests.soak.mix.load import MixLoad, config_map
from tests.soak.mix.plan import GPUS_OF, PRIORITIES, SCHEDULERS, MixPlan, budget
from tests.soak.processes import NAMES, Processes, Sample
from tests.soak.report import Report, none_of, rounded
from tests.soak.revisions import Revision
from tests.soak.run import SPARING, carried_out, every, loaded
from tests.soak.usage import usage_of

GROUP_VERSION = f"scheduling.k8s.io/{'v1alpha2' if RELEASE == '1.36' else 'v1beta1'}"
_FOLLOWED = {"limitsConfigMap": "kube-system/dra-limits"}
_PATIENT = {"leaseDurationSeconds": 60, "renewDeadlineSeconds": 50}
_BACKOFF = {"podInitialBackoffSeconds": 0.5, "podMaxBackoffSeconds": 4}
_SAMPLED_EVERY_S = 5.0
_TOLD_EVERY_S = 10.0
_STORIES = 20
REVISIONS = "revisions.log"
_USUAL = MixPlan()


@click.command()
@click.option("--minutes", default=_USUAL.minutes, show_default=True, help="How long objects come.")
@click.option("--nodes", default=_USUAL.nodes, show_default=True)
@click.option("--good-rate", default=_USUAL.good_rate, show_default=True, help="Pods a second.")
@click.option("--kill-every", "kill_every_s", default=_USUAL.kill_every_s, show_default=True, help="In seconds.")
@click.option("--seed", default=_USUAL.seed, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=Path(".cache/soak-mix"), show_default=True)
def main(output: Path, **sizes: Any) -> None:  # Any: as click has read them
    """Mix priorities, groups, budgets and limits, and see whether all rules hold."""
    plan = MixPlan(**sizes)

    def carry_out(programs: Binaries, folder: Path) -> tuple[Report, ControlPlane]:
        with ControlPlane(programs, folder / "plane", ALL, environment=SPARING) as plane:
            return asyncio.run(mixed(plane, plan, click.echo, output / REVISIONS)), plane

    carried_out(carry_out, output, (*NAMES, "guard"))


def furnish(api: Any, nodes: int) -> None:
    """Put it all there. api: RestClient."""
    grant(api)
    restore(api, manifests(BASE.parent / "limits" / "rbac.yaml"))
    restore(api, [an_object(NAMESPACE, name) for name in TEAMS])
    restore(api, [*fleet(nodes), *devices_of_all_nodes(), *classes()])
    kind = Kind("scheduling.k8s.io/v1", "PriorityClass")
    for name, value in PRIORITIES.items():
        api.create(an_object(kind, name, value=value))
    for namespace in TEAMS:
        for template in (*GPUS_OF, "quarter", "memory"):
            asked = [request(GPU, count=GPUS_OF[template])] if template in GPUS_OF else requests_of(template)
            api.create(an_object(TEMPLATE, template, namespace, spec={"spec": {"devices": {"requests": asked}}}))
        wanted = budget(namespace, 1)
        stored = api.create({key: value for key, value in wanted.items() if key != "status"})
        api.replace_status({**stored, "status": wanted["status"]})
    api.create(config_map([]))


@dataclass(slots=True)
class _Watched:
    """Whose memory is looked at beside that of the schedulers."""

    guard: Guard
    began_s: float
    samples: list[Sample] = field(default_factory=list)

    def look(self) -> None:
        now = monotonic()
        if usage := usage_of(self.guard.pid):
            self.samples.append(Sample("guard", now - self.began_s, now - self.began_s, *usage))


async def mixed(plane: ControlPlane, plan: MixPlan, tell: Callable[[str], None], revisions: Path) -> Report:
    """Carry it out. tell: is given the lines. revisions: where each of them is written."""
    api = plane.client()
    async with AsyncExitStack() as stack:
        way = stack.enter_context(door())
        revisions.parent.mkdir(parents=True, exist_ok=True)
        written = stack.enter_context(revisions.open("w"))
        await asyncio.to_thread(furnish, api, plan.nodes)
        inventory = inventory_of(await asyncio.to_thread(api.list, SLICE))
        admin = await stack.enter_async_context(Client(plane, ADMIN))
        checker, judge = Checker(inventory, lambda _: True), MixJudge(inventory)
        load = MixLoad(admin, plan, judge, GROUP_VERSION)
        await load.change_limits()
        guard = await asyncio.to_thread(_guard, plane)
        stack.callback(guard.stop)
        way.lead_to(guard.port)
        await asyncio.to_thread(install, api, way.port)
        common = {**_FOLLOWED, **_BACKOFF}
        settings = {name: {**common, "schedulerName": of} for name, of in zip(NAMES, SCHEDULERS, strict=True)}
        processes = Processes(plane, plan, settings)
        for ends in (processes, load):
            stack.push_async_callback(ends.stop)
        await processes.start()

        told: Counter[int] = Counter()

        def feed(revision: Revision) -> None:
            written.write(f"{reported_of(revision)}\n")
            checker.feed(revision)
            judge.feed(revision)
            for wrongs in (checker.wrongs, judge.wrongs):
                for one in wrongs[told[id(wrongs)] :]:
                    tell(f"version {one.version}: {one.rule}: {one.text}")
                told[id(wrongs)] = len(wrongs)

        history = History(admin, feed, load.see)
        await history.begin()
        following = asyncio.create_task(history.follow())
        run = MixRun(plan, checker, judge, load, processes, _Watched(guard, monotonic()), plane)
        tell(f"{plan.nodes} nodes, {len(inventory.devices)} devices, 2 schedulers and a guard; seed {plan.seed}")
        background: Sequence[Coroutine[None, None, None]] = [
            every(_TOLD_EVERY_S, lambda: tell(run.progress())),
            every(_SAMPLED_EVERY_S, run.guarded.look),
            processes.keep(),
            processes.kill_in_turn(),
        ]
        await loaded(plan, [load.come], judge.waiting, following, background)
        end = monotonic()
        await history.end()
        await following
        judge.look()
        return run.report(end, await processes.decision_ms())


def _guard(plane: ControlPlane) -> Guard:
    path = plane.folder / "guard.json"
    kind = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraGuardConfiguration"}
    path.write_text(json.dumps({**kind, "leaderElection": _PATIENT, **_FOLLOWED}))
    (port,) = free_ports(1)
    return Guard(plane, port, [f"--config={path}", f"--publish-certificate={WEBHOOK}"], name="guard")


@dataclass(frozen=True, slots=True)
class MixRun:
    """The parts of a run, which have counted what they did."""

    plan: MixPlan
    checker: Checker
    judge: MixJudge
    load: MixLoad
    processes: Processes
    guarded: _Watched
    plane: ControlPlane

    def progress(self) -> str:
        """One line."""
        load, judge = self.load, self.judge
        memory = "+".join(f"{mib:.0f}" for mib in self.processes.resident_mib().values())
        return (
            f"{monotonic() - self.guarded.began_s:5.0f} s: {load.created} pods, {judge.waiting()} wait, "
            f"{100 * judge.in_use():.0f} % of GPUs in use; {judge.decisions} preemptions, {judge.victims} victims; "
            f"{load.failures} nodes failed, {load.changes} changes of limits, {len(self.processes.gaps)} kills, "
            f"{len(self.processes.ends)} ends; {memory} MiB; {self.checker.revisions} revisions, "
            f"{len(self.checker.wrongs) + len(judge.wrongs)} wrong, {len(load.failed)} calls failed"
        )

    def report(self, end_s: float, decision_ms: dict[str, float]) -> Report:
        """What it came to."""
        lasted_s = end_s - self.guarded.began_s
        wrongs = [*self.checker.wrongs, *self.judge.wrongs]
        ends = [f"{one.name} ended by itself after {one.at_s:.0f} s: {one.text}" for one in self.processes.ends]
        samples = [*self.processes.samples, *self.guarded.samples]
        names = (HELD_TWICE, WITHOUT_DEVICES, *RULES)
        rules = [
            *(none_of(rule, [one for one in wrongs if one.rule == rule]) for rule in names),
            figures.memory_rule(figures.growth(samples, lasted_s), lasted_s),
            none_of("process ended by itself", ends),
        ]
        stories = {one.text: self.checker.story(one) for one in wrongs[:_STORIES]}
        found = {**self._figures(end_s, lasted_s), "decision, mean, ms": rounded(decision_ms)}
        return Report(self.plan, rules, found, wrongs, ends, stories)

    def _figures(self, end_s: float, lasted_s: float) -> dict[str, object]:
        load, judge = self.load, self.judge
        waits = figures.waits(self.checker.waited(), self.processes.gaps, end_s)
        pids = {**self.plane.pids(), "guard": self.guarded.guard.pid, "soak": os.getpid()}
        cpu = {name: usage.cpu_s for name, pid in pids.items() if (usage := usage_of(pid))} | self.processes.cpu_s()
        memory = {**self.processes.resident_mib(), "guard": self.guarded.samples[-1].resident_mib}
        return {
            "revisions checked": self.checker.revisions,
            "pods": f"{load.created} created, {load.bound} bound, {load.recreated} again, {load.held_back} held back",
            "calls that failed": "; ".join((str(len(load.failed)), *load.failed[:3])),
            "preemptions, victims": f"{judge.decisions}, {judge.victims}",
            "preemptions whose devices another scheduler's pod took": judge.taken,
            "nodes that failed, changes of limits": f"{load.failures}, {load.changes}",
            "wait for devices, p50, p99": f"{waits.p50_s:.2f} s, {waits.p99_s:.2f} s",
            "kills": len(self.processes.gaps),
            "memory, MiB": rounded(memory),
            "processors in use": rounded({name: cpu_s / lasted_s for name, cpu_s in cpu.items()}),
        }


if __name__ == "__main__":
    main()
