"""One pod has room for thousands of terms, constraints and ports: it may fail in time, and costs others nothing."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from scheduler.core_v1.label_selectors import AffinityTerm
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import NotPlaced, OutOfTime, Placed
from scheduler.decision.time_limits import DecisionTimeLimit
from scheduler.plugins.inter_pod_affinity import INTER_POD_AFFINITY
from scheduler.plugins.node_affinity import NODE_AFFINITY
from scheduler.plugins.node_ports import NODE_PORTS
from scheduler.plugins.plugin import FEW_TERMS, MOST_TERMS, Plugin, Refusal, RefusedPod
from scheduler.plugins.pod_topology_spread import POD_TOPOLOGY_SPREAD
from scheduler.plugins.taint_toleration import TAINT_TOLERATION
from scheduler.state.cluster_changes import NodeChanged, PodChanged
from scheduler.state.node_infos import MOST_TERMS as MOST_PROMISED
from scheduler.state.pods import pod_requests
from tests.builders import a_node, amounts, kubernetes
from tests.unit.scheduler.plugins.raw_pods import (
    HOST,
    ZONE,
    a_constraint,
    a_pod_of,
    a_term,
    apart,
    near,
    rather_apart,
    rather_near,
)

MANY = 300
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ROOM = amounts(cpu="4", memory="8Gi", pods="10")
VICTIM = a_pod_of("victim", labels={"app": "victim"}, namespace="others")


def a_cluster(time_limit: DecisionTimeLimit | None = None) -> Cluster:
    """Two nodes in two zones."""
    cluster = Cluster(kubernetes(), is_ours=lambda _: True, time_limit=time_limit)
    for number in range(2):
        cluster.set_node(a_node(f"n{number}", {HOST: f"n{number}", ZONE: f"z{number}"}, allocatable=ROOM))
    return cluster


def labels(number: int) -> dict[str, str]:
    return {"app": f"app-{number}"}


def terms(key: str = ZONE) -> list[dict[str, Any]]:
    """About pods that are not there."""
    return [a_term(key, labels(number)) for number in range(MANY)]


def preferred(kind: str, one: Any) -> dict[str, Any]:
    written = [one(1, term)[kind][PREFERRED][0] for term in terms()]
    return {kind: {PREFERRED: written}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"affinity": apart(*terms())}, id="kept apart"),
        pytest.param({"affinity": preferred("podAffinity", rather_near)}, id="rather near"),
        pytest.param({"affinity": preferred("podAntiAffinity", rather_apart)}, id="rather apart"),
        pytest.param({"topologySpreadConstraints": [a_constraint(labels=labels(n)) for n in range(MANY)]}, id="hard"),
        pytest.param(
            {"topologySpreadConstraints": [a_constraint(labels=labels(n), is_hard=False) for n in range(MANY)]},
            id="soft",
        ),
    ],
)
def test_decision_ends_in_time_however_many_terms_the_pod_has(spec: dict[str, Any]) -> None:
    looks = itertools.count()
    cluster = a_cluster(DecisionTimeLimit(lambda: next(looks), MANY / 10))
    assert isinstance(decide(cluster, a_pod_of("pod", **spec), []), OutOfTime)
    assert next(looks) < MANY / 5
    assert isinstance(decide(a_cluster(), a_pod_of("pod", **spec), []), Placed)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"affinity": near(*(a_term(f"key-{n}", labels(n)) for n in range(MANY)))}, id="near"),
        pytest.param({"topologySpreadConstraints": [a_constraint(f"key-{n}") for n in range(MANY)]}, id="spread"),
    ],
)
def test_keys_that_no_node_has_are_not_looked_at_one_by_one(spec: dict[str, Any]) -> None:
    looks = itertools.count()
    cluster = a_cluster(DecisionTimeLimit(lambda: next(looks), 2 * MANY))
    assert isinstance(decide(cluster, a_pod_of("pod", **spec), []), NotPlaced)
    assert next(looks) < 2 * MANY


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[AffinityTerm]:
    """The terms that are held against pods, one after the other."""
    found: list[AffinityTerm] = []
    matches = AffinityTerm.matches

    def counted(term: AffinityTerm, *arguments: Any) -> bool:
        found.append(term)
        return matches(term, *arguments)

    monkeypatch.setattr(AffinityTerm, "matches", counted)
    return found


def a_holder(name: str, number: int = MANY) -> Pod:
    """A pod on a node, with terms about all pods of all namespaces, each of them another one."""
    selectors = [
        {"matchExpressions": [{"key": "no", "operator": "NotIn", "values": [f"{name}-{n}"]}]} for n in range(number)
    ]
    written = [{"topologyKey": ZONE, "namespaceSelector": {}, "labelSelector": one} for one in selectors]
    return a_pod_of(name, "n0", affinity=apart(*written))


def test_terms_of_others_are_held_once_against_pods_that_are_alike(evaluations: list[AffinityTerm]) -> None:
    cluster = a_cluster()
    cluster.set_pod(a_holder("first"))
    for _ in range(3):
        placed = decide(cluster, VICTIM, [])
        assert isinstance(placed, Placed)
        assert placed.node == "n1"
    assert len(evaluations) == MANY
    cluster.set_pod(a_holder("second", 1))
    decide(cluster, VICTIM, [])
    assert len(evaluations) == MANY + 1


def test_terms_of_others_add_up_to_one_array_for_each_key_of_nodes() -> None:
    cluster = a_cluster()
    cluster.set_pod(a_holder("first"))
    wanted = {
        "podAffinity": {PREFERRED: [{"weight": n % 100 + 1, "podAffinityTerm": one} for n, one in enumerate(terms())]}
    }
    cluster.set_pod(a_pod_of("second", "n0", affinity=wanted))
    everybody = a_pod_of("pod", labels=labels(1))
    assert len(list(cluster.infos.terms.wanting(everybody, required_weight=1))) == 1


def test_more_changes_than_are_kept_are_counted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.state.pods_by_labels.FEWEST_CHANGES", 2)
    cluster = a_cluster()
    cluster.set_pod(a_holder("first", 3))
    assert cluster.infos.terms.kept_from(VICTIM) == 0b01
    for name in ("second", "third"):
        cluster.set_pod(a_holder(name, 3))
    for name in ("first", "second", "third"):
        assert cluster.infos.terms.kept_from(VICTIM) == 0b01
        cluster.remove_pod(f"default-{name}")
    assert cluster.infos.terms.kept_from(VICTIM) == 0


def test_what_was_counted_is_counted_again_once_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.state.pods_by_labels.MOST_ADDED", 1)
    cluster = a_cluster()
    for number in range(3):
        cluster.set_pod(a_holder(f"holder-{number}", 1))
        assert cluster.infos.terms.kept_from(VICTIM) == 0b01
        assert cluster.infos.terms.kept_from(VICTIM) == 0b01


def test_terms_of_a_pod_that_was_promised_a_node_are_held_once_against_pods_that_are_alike(
    evaluations: list[AffinityTerm],
) -> None:
    cluster = a_cluster()
    cluster.set_pod(replace(a_holder("first"), node_name="", nominated_node="n0"))
    for _ in range(3):
        placed = decide(cluster, VICTIM, [])
        assert isinstance(placed, Placed)
        assert placed.node == "n1"
    assert len(evaluations) == MOST_PROMISED


MANY_VALUES = {"matchExpressions": [{"key": "no", "operator": "NotIn", "values": [f"v{n}" for n in range(MANY)]}]}


@pytest.mark.parametrize(
    ("plugin", "spec"),
    [
        (INTER_POD_AFFINITY, {"affinity": near({"topologyKey": ZONE, "labelSelector": MANY_VALUES})}),
        (INTER_POD_AFFINITY, {"affinity": apart({"topologyKey": ZONE, "labelSelector": MANY_VALUES})}),
        (
            POD_TOPOLOGY_SPREAD,
            {"topologySpreadConstraints": [{**a_constraint(labels={}), "labelSelector": MANY_VALUES}]},
        ),
    ],
)
def test_any_pod_that_goes_may_help_one_with_a_large_selector(plugin: Plugin, spec: dict[str, Any]) -> None:
    pod = a_pod_of("pod", **spec)
    other = a_pod_of("other", "n0", labels={"no": "v1"})
    hint = plugin.reason.hints[PodChanged]
    assert hint(RefusedPod(pod, Refusal(frozenset({plugin.reason}), pod_requests(pod))), PodChanged(other, None))


PORTS = [{"name": "main", "ports": [{"containerPort": n, "hostPort": n} for n in range(1, MOST_TERMS + 2)]}]


@pytest.mark.parametrize(
    ("plugin", "spec"),
    [
        (INTER_POD_AFFINITY, {"affinity": near(*terms())}),
        (INTER_POD_AFFINITY, {"affinity": apart(*terms())}),
        (POD_TOPOLOGY_SPREAD, {"topologySpreadConstraints": [a_constraint(labels=labels(n)) for n in range(MANY)]}),
        (NODE_PORTS, {"containers": PORTS}),
    ],
)
def test_any_pod_that_goes_may_help_one_with_many_terms(plugin: Plugin, spec: dict[str, Any]) -> None:
    """Nothing is held against any of them: each event would take as long as all of them together."""
    pod, other = a_pod_of("pod", **spec), a_pod_of("other", "n0")
    hint = plugin.reason.hints[PodChanged]
    assert hint(RefusedPod(pod, Refusal(frozenset({plugin.reason}), pod_requests(pod))), PodChanged(other, None))


def of_node(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def asks(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


FEW = range(FEW_TERMS + 1)


@pytest.mark.parametrize(
    ("plugin", "spec"),
    [
        (NODE_AFFINITY, of_node(*({"matchExpressions": [asks(f"k{n}", "v")]} for n in FEW))),
        (NODE_AFFINITY, of_node({"matchExpressions": [asks(f"k{n}", "v") for n in FEW]})),
        (NODE_AFFINITY, of_node({"matchExpressions": [asks("k", *(f"v{n}" for n in range(MOST_TERMS + 1)))]})),
        (NODE_AFFINITY, {"nodeSelector": {f"k{n}": "v" for n in FEW}}),
        (TAINT_TOLERATION, {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in FEW]}),
    ],
)
def test_a_pod_that_asks_much_of_a_node_is_looked_at_for_no_change_of_a_node(
    plugin: Plugin, spec: dict[str, Any]
) -> None:
    """Nor does any other pod have to wait until thousands of such pods were."""
    hint = plugin.reason.hints[NodeChanged]
    few, much = a_pod_of("few"), a_pod_of("much", **spec)
    before, after = a_node("n0"), a_node("n0", labels={"other": "value"})
    refused = {pod.name: RefusedPod(pod, Refusal(frozenset({plugin.reason}), pod_requests(pod))) for pod in (few, much)}
    assert hint(refused["much"], NodeChanged(before, after))
    assert not hint(refused["much"], NodeChanged(before, None))
    assert not hint(refused["few"], NodeChanged(before, after)), "it has passed before"
