"""`make bench-cycle`: decisions alone, without an API server, beside kube-scheduler's own plugins in a Go process.

Both sides read the same objects, have a pod on every node already, and decide for the same pods, one after the other;
what a pod gets is taken before the next is decided. The plugins look at a part of the nodes, as kube-scheduler comes,
and then at all of them, as ours do. A run counts only if each pod has what it asked for, and if the plugins find each
node that ours has chosen among the best ones. Then ours alone by policies, which the plugins do not have, for pods
with a claim each; who has to go for pods that fit nowhere, beside the plugin that preempts, which evicts nobody for
devices; what limits per tenant cost; and groups of pods, beside one decision of kube-scheduler about the same group.
Prints tables of means, and writes results.json, policies.json, preemption.json, limits.json, gangs.json and runs.json
into a folder. Times depend on the machine and on what else it does; ratios of one round do so much less.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import orjson

from benchmarks.cycle import figures, gangs, limits, preemption
from benchmarks.cycle.cases import CASES, cluster
from benchmarks.cycle.correctness import WrongChoice, check
from benchmarks.cycle.figures import WARM_UP, PolicyRun, Run, Times
from benchmarks.endtoend.workload import PLAIN, Asks
from scheduler.installation import description
from tests.controlplane.binaries import BuildError, Unavailable, own_program

NODES = (500, 5000, 15_000)
RELEASES = {"1.36": "", "1.37": "1.37", "1.38": "1.38"}
"""As the module of the control plane names them; the last one is the newest."""
NEWEST = list(RELEASES)[-1]
POLICIES = ("first-fit", "fgd", "fill-value")
ALL_NODES = 100
LONGEST_S = 20
"""The plugins begin no decision after this."""
MOST_GANG_S = 1800
"""kube-scheduler's one decision about a group takes no longer, or is given up."""
JUDGING_S = 5
"""They look at none of ours after this."""

COMPARED = """Compared: decisions, each with filters, scores, the choice and what the pod takes, without an API server.
Both sides read the same objects and decide for the same pods in the same order; ours in one thread, about all nodes.
The last column: so many of our choices were shown to the plugins, which found each of them among the best nodes."""

tell = partial(print, file=sys.stderr, flush=True)


class Decided(NamedTuple):
    """The nodes that a side has chosen, and how long it took for each."""

    nodes: Sequence[str]
    times: Times


class Failed(Exception):
    """One of the sides could not be built or has ended; its own words are in the message."""


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="sizes (default: 500 5000 15000)")
    parser.add_argument("--pods", type=int, default=320, help=f"decisions, {WARM_UP} of them to warm up (default: 320)")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (default: 3)")
    parser.add_argument("--only", choices=list(CASES), action="append", default=[], help="one case; may come again")
    parser.add_argument(
        "--policy", action="append", default=[], help=f"ours alone by this policy (default: {', '.join(POLICIES)})"
    )
    parser.add_argument("--only-policies", action="store_true", help="nothing beside the plugins: needs no Go")
    parser.add_argument("--only-preemption", action="store_true", help="only who has to go")
    parser.add_argument("--only-limits", action="store_true", help="only limits per tenant; ours alone, needs no Go")
    parser.add_argument(
        "--only-gangs",
        choices=["alone", "beside"],
        nargs="?",
        const="alone",
        help="only groups of pods; alone, which needs no Go, or beside kube-scheduler, which takes minutes",
    )
    parser.add_argument("--output", type=Path, default=Path(".cache/bench-cycle"), help="folder for the results")
    parser.add_argument(
        "--kubernetes", choices=RELEASES, default=NEWEST, help=f"the release of the plugins (default: {NEWEST})"
    )
    arguments = parser.parse_args()
    if arguments.pods <= WARM_UP:
        parser.error(f"--pods: {arguments.pods} are too few, {WARM_UP} are to warm up")
    arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.only_preemption:
        try:
            plugins = built_plugins(arguments.kubernetes)
            print(measured_preemption(plugins, arguments.nodes, arguments.pods, arguments.rounds, arguments.output))
        except Failed as error:
            sys.exit(f"bench-cycle: {error}")
        return
    if arguments.only_limits:
        print(measured_limits(arguments.nodes, arguments.pods, arguments.rounds, arguments.output))
        return
    if arguments.only_gangs:
        beside = arguments.only_gangs == "beside"
        print(measured_gangs(arguments.rounds, arguments.output, arguments.kubernetes if beside else ""))
        return
    cases = [asks for name, asks in CASES.items() if name in (arguments.only or CASES)]
    try:
        if not arguments.only_policies:
            plugins = built_plugins(arguments.kubernetes)
            runs = measure_all(plugins, cases, arguments)
            print(f"ours: {description()}; the plugins of Kubernetes {arguments.kubernetes}\n{COMPARED}\n")
            print(f"{figures.table(figures.rows(runs))}\n")
        policies = arguments.policy or POLICIES
        by_policy = measure_policies(policies, arguments.nodes, arguments.pods, arguments.rounds)
    except (Failed, WrongChoice) as error:
        sys.exit(f"bench-cycle: {error}")
    rows = figures.policy_rows(by_policy)
    (arguments.output / "policies.json").write_text(json.dumps([one.document() for one in rows], indent=1) + "\n")
    print(f"ours by policy: {description()}\n\n{figures.policy_table(rows)}\n")
    if not arguments.only_policies:
        print(measured_preemption(plugins, arguments.nodes, arguments.pods, arguments.rounds, arguments.output))
    print(measured_limits(arguments.nodes, arguments.pods, arguments.rounds, arguments.output))
    print(measured_gangs(arguments.rounds, arguments.output))
    print(f"written: {', '.join(map(str, sorted(arguments.output.glob('*.json'))))}")


def measure_all(plugins: Path, cases: Sequence[Asks], arguments: argparse.Namespace) -> list[Run]:
    """All cases at all sizes, round after round. Raises Failed or WrongChoice."""
    runs: list[Run] = []
    for number in range(arguments.rounds):
        for nodes in arguments.nodes:
            for asks in cases:
                tell(f"round {number + 1} of {arguments.rounds}: {nodes:,} nodes, {asks.name}", end=": ")
                runs.append(measure(asks, nodes, arguments.pods, plugins))
                tell(f"{1e3 * runs[-1].ours.mean_s:.3g} ms, plugins {1e3 * runs[-1].sampled.mean_s:.3g} ms")
                _write(runs, arguments.output)
    return runs


def measure_policies(policies: Sequence[str], sizes: Sequence[int], pods: int, rounds: int) -> list[PolicyRun]:
    """Each policy at all sizes, round after round. Raises Failed or WrongChoice."""
    runs: list[PolicyRun] = []
    for number in range(rounds):
        for nodes in sizes:
            case = orjson.dumps(cluster(PLAIN, nodes, pods))
            for policy in policies:
                command = [sys.executable, "-m", "benchmarks.cycle.ours", policy]
                times = _decided(command, PLAIN, nodes, case).times
                runs.append(PolicyRun(policy, nodes, times))
                tell(f"round {number + 1} of {rounds}: {nodes:,} nodes, {policy}: {1e3 * times.mean_s:.3g} ms")
    return runs


def measured_preemption(plugins: Path, sizes: Sequence[int], pods: int, rounds: int, output: Path) -> str:
    """Who has to go for pods that fit nowhere, as a table; preemption.json has the same. Raises Failed.

    plugins: the program, which knows of no victims for devices.
    """
    runs: list[PolicyRun] = []
    for number in range(rounds):
        for nodes in sizes:
            for case in preemption.CASES:
                command = [sys.executable, "-m", "benchmarks.cycle.preemption", case, str(nodes), str(pods)]
                found = orjson.loads(_output(command))
                runs.append(PolicyRun(case, nodes, Times([one / 1e9 for one in found["nanoseconds"]])))
                tell(f"round {number + 1} of {rounds}: {nodes:,} nodes, {case}: {1e3 * runs[-1].times.mean_s:.3g} ms")
                if case != preemption.CASES[3]:
                    given = orjson.dumps(preemption.objects(case, nodes, pods))
                    theirs = orjson.loads(_output([str(plugins), "preempt"], case=given))["nanoseconds"]
                    times = Times([one / 1e9 for one in theirs])
                    runs.append(PolicyRun(f"{case}: kube-scheduler's plugin", nodes, times))
                    tell(f"the plugin: {1e3 * times.mean_s:.3g} ms")
    rows = figures.policy_rows(runs)
    documents = [{**one.document(), "case": one.policy} for one in rows]
    (output / "preemption.json").write_text(json.dumps(documents, indent=1) + "\n")
    return f"who has to go: {description()}\n\n{figures.policy_table(rows, 'preemption')}"


def measured_limits(sizes: Sequence[int], pods: int, rounds: int, output: Path) -> str:
    """What limits per tenant cost, ours alone, as a table; limits.json has the same."""
    runs: list[PolicyRun] = []
    for number in range(rounds):
        for nodes in sizes:
            found = orjson.loads(_output([sys.executable, "-m", "benchmarks.cycle.limits", str(nodes), str(pods)]))
            own = {case: Times([one / 1e9 for one in found[case]]) for case in limits.CASES}
            runs += [PolicyRun(case, nodes, times) for case, times in own.items()]
            without, those = (own[case].mean_s for case in limits.CASES)
            tell(f"round {number + 1} of {rounds}: {nodes:,} nodes, limits: {100 * (those / without - 1):+.1f} %")
    rows = figures.policy_rows(runs)
    documents = [{**one.document(), "case": one.policy} for one in rows]
    (output / "limits.json").write_text(json.dumps(documents, indent=1) + "\n")
    return f"ours, limits per tenant: {description()}\n\n{figures.policy_table(rows, 'limits')}"


def measured_gangs(rounds: int, output: Path, kubernetes: str = "") -> str:
    """Decisions about groups of pods, as a table; gangs.json has the same.

    kubernetes: the release of the kube-scheduler that decides once about each group as well; none where it is empty.
    """
    runs: list[PolicyRun] = []
    for number in range(rounds):
        for case, (nodes, _, _) in gangs.CASES.items():
            command = [sys.executable, "-m", "benchmarks.cycle.gangs", case, str(2 * WARM_UP)]
            found = orjson.loads(_output(command))
            runs.append(PolicyRun(case, nodes, Times([one / 1e9 for one in found["nanoseconds"]])))
            took, most = 1e3 * runs[-1].times.mean_s, gangs.TARGETS_MS[case]
            tell(f"round {number + 1} of {rounds}: {nodes:,} nodes, {case}: {took:.3g} ms, at most {most} ms wanted")
    rows = figures.policy_rows(runs)
    documents = [{**one.document(), "case": one.policy, "target_ms": gangs.TARGETS_MS[one.policy]} for one in rows]
    (output / "gangs.json").write_text(json.dumps(documents, indent=1) + "\n")
    theirs = list(_gangs_of_kube_scheduler(kubernetes)) if kubernetes else []
    return "\n".join([f"ours, groups of pods: {description()}\n", figures.policy_table(rows, "groups"), "", *theirs])


def _gangs_of_kube_scheduler(kubernetes: str) -> Iterator[str]:
    plugins = built_plugins(kubernetes)
    for case in gangs.CASES:
        given = orjson.dumps(gangs.for_kube_scheduler(case))
        try:
            found = orjson.loads(_output([str(plugins), "gang"], case=given, most_s=MOST_GANG_S))
        except subprocess.TimeoutExpired:
            yield f"kube-scheduler {kubernetes}, {case}: no decision within {MOST_GANG_S:,} s"
        else:
            took = found["nanoseconds"][0] / 1e9
            yield f"kube-scheduler {kubernetes}, {case}: {took:,.1f} s, {len(found['nodes'])} of them placed"


def measure(asks: Asks, nodes: int, pods: int, plugins: Path) -> Run:
    """A case at a size, once."""
    case = orjson.dumps(cluster(asks, nodes, pods))
    decide = partial(_decided, asks=asks, nodes=nodes, case=case)
    ours = decide([sys.executable, "-m", "benchmarks.cycle.ours"])
    sampled = decide([str(plugins), "cycle", f"-seconds={LONGEST_S}"])
    thorough = decide([str(plugins), "cycle", f"-seconds={LONGEST_S}", f"-percentage={ALL_NODES}"])
    judge = [str(plugins), "judge", f"-seconds={JUDGING_S}"]
    best = orjson.loads(_output(judge, case=case + b"\n" + orjson.dumps(ours.nodes)))["best"]
    return Run(asks.name, nodes, ours.times, sampled.times, thorough.times, best)


def built_plugins(kubernetes: str) -> Path:
    """The program with the plugins of a release, built where its sources changed. Raises Failed."""
    try:
        return own_program("plugins", os.environ, tell, RELEASES[kubernetes])
    except (BuildError, Unavailable) as error:
        raise Failed(str(error)) from None


def _decided(command: Sequence[str], asks: Asks, nodes: int, case: bytes) -> Decided:
    found = orjson.loads(_output(command, case=case))
    if len(found["nodes"]) <= WARM_UP:
        raise Failed(f"{asks.name}, {nodes:,} nodes: {command[0]} decided for {len(found['nodes'])} pods alone")
    check(asks, nodes, found["nodes"])
    return Decided(found["nodes"], Times([one / 1e9 for one in found["nanoseconds"]]))


def _output(command: Sequence[str], case: bytes = b"", most_s: float | None = None) -> bytes:
    done = subprocess.run(command, input=case, capture_output=True, check=False, env=_environment(), timeout=most_s)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Failed(f"{' '.join(command)} ended with {done.returncode}: {said[-1] if said else 'it said nothing'}")
    return done.stdout


def _environment() -> Mapping[str, str]:
    """A workspace of the user's would replace the pinned modules."""
    return {**os.environ, "GOWORK": "off"}


def _write(runs: Sequence[Run], output: Path) -> None:
    documents = [row.document() for row in figures.rows(runs)]
    (output / "results.json").write_text(json.dumps(documents, indent=1) + "\n")
    (output / "runs.json").write_text(json.dumps([_document(one) for one in runs], indent=1) + "\n")


def _document(run: Run) -> dict[str, object]:
    times = {name: getattr(run, name).seconds for name in ("ours", "sampled", "thorough")}
    return {"case": run.case, "nodes": run.nodes, "best": run.best, **times}


if __name__ == "__main__":
    main()
