import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from allocator.model import Node, Requirement, Taint, Term, Toleration
from cel import Cancelled
from scheduler.core_v1.label_selectors import PodAffinity, SpreadConstraint
from scheduler.core_v1.pod import Pod, Preference
from scheduler.decision import filters
from scheduler.decision.filters import MOST_SIGNATURES, NOT_NAMED, PodSignatures
from scheduler.plugins.node_affinity import NODE_AFFINITY
from scheduler.plugins.plugin import Plugin, Static
from scheduler.plugins.profile import PLUGINS, PluginSet, PluginSets, plugins_of
from tests.builders import a_node, a_pod, a_term, amounts, named, requires

TAINT = Taint("k", "v", "NoSchedule")


def rejected(pod_signatures: PodSignatures, pod: Pod) -> list[tuple[str, str, int]]:
    return [(plugin.name, one.reason, one.nodes) for plugin, one in pod_signatures.rejections(pod_signatures.of(pod))]


def counting(refusal: Callable[[Pod, Node], str]) -> Plugin:
    static = Static("counted", refusal)
    return Plugin.of_nodes(NODE_AFFINITY.name, static, pod_fields=("node_selector",), node_fields=("labels",))


def of_nodes(*nodes: Node, plugins: Sequence[Plugin] = PLUGINS) -> PodSignatures:
    found = PodSignatures(plugins=plugins)
    for number, node in enumerate(nodes):
        found.set_node(number, node)
    return found


def zoned(*zones: str, plugins: Sequence[Plugin] = PLUGINS) -> PodSignatures:
    nodes = (a_node(f"n{number}", {"zone": zone}) for number, zone in enumerate(zones))
    return of_nodes(*nodes, plugins=plugins)


def test_a_template_allows_the_nodes_that_every_filter_lets_pass() -> None:
    found = of_nodes(a_node("a"), a_node("b", taints=(TAINT,)), a_node("c", unschedulable=True), a_node("d"))
    assert found.of(a_pod()).allowed == 0b1001
    assert found.of(a_pod(tolerations=(Toleration("k", "Exists"),))).allowed == 0b1011
    assert found.of(a_pod(node_name="d")).allowed == 0b1000


def test_a_node_is_refused_by_the_first_filter_that_refuses_it() -> None:
    both = a_node("b", taints=(TAINT,), unschedulable=True)
    assert rejected(of_nodes(a_node("a"), both, a_node("c", taints=(TAINT,))), a_pod()) == [
        ("NodeUnschedulable", "node(s) were unschedulable", 0b010),
        ("TaintToleration", "node(s) had untolerated taint(s)", 0b100),
    ]


def test_what_keeps_pods_from_nodes_is_reported_by_node_and_anew_once_one_has_changed() -> None:
    found = of_nodes(
        a_node("a"), a_node("b", taints=(TAINT,)), a_node("c", unschedulable=True), a_node("d", taints=(TAINT,))
    )
    taint = "node has untolerated taint {k: v}"
    assert found.refused(found.of(a_pod())) == {taint: 0b1010, "node is unschedulable": 0b0100}
    found.set_node(1, a_node("b"))
    assert found.refused(found.of(a_pod())) == {taint: 0b1000, "node is unschedulable": 0b0100}


def test_only_nodes_that_changed_are_looked_at_again() -> None:
    looked_at: list[str] = []

    def look_at(_pod: Pod, node: Node) -> str:
        looked_at.append(node.name)
        return ""

    found = zoned("a", "b", "c", plugins=(counting(look_at), *PLUGINS[1:]))
    found.of(a_pod())
    assert looked_at == ["n0", "n1", "n2"]
    found.of(a_pod(name="another"))
    found.set_node(1, a_node("n1", {"zone": "b"}, allocatable=amounts(cpu="1")))
    found.of(a_pod())
    assert looked_at == ["n0", "n1", "n2"]
    found.set_node(1, a_node("n1", {"zone": "z"}))
    found.of(a_pod())
    assert looked_at == ["n0", "n1", "n2", "n1"]


def test_a_node_that_changes_goes_or_comes_is_seen() -> None:
    found, pod = zoned("a", "b"), a_pod(node_selector={"zone": "a"})
    assert found.of(pod).allowed == 0b01
    found.set_node(1, a_node("n1", {"zone": "a"}))
    assert found.of(pod).allowed == 0b11
    found.remove_node(0)
    assert (found.of(pod).allowed, found.of(a_pod()).allowed) == (0b10, 0b10)
    found.set_node(200, a_node("n200", {"zone": "a"}))
    assert found.of(pod).allowed == 0b10 | 1 << 200


def test_a_number_may_be_given_to_another_node() -> None:
    found, pod = zoned("a", "b"), a_pod(affinity=named("n9"))
    found.set_node(0, a_node("n9"))
    assert found.of(pod).allowed == 0b01
    found.remove_node(0)
    assert found.of(pod).allowed == 0
    found.remove_node(0)


def test_a_pod_that_names_its_nodes_has_just_these_looked_at() -> None:
    looked_at: list[str] = []

    def look_at(_pod: Pod, node: Node) -> str:
        looked_at.append(node.name)
        return "" if node.name == "n1" else "no"

    pod = a_pod(affinity=(*named("n1"), *named("n3"), *named("gone")))
    pod_signatures = zoned("a", "b", "c", "d", plugins=(counting(look_at),))
    assert pod_signatures.of(pod).allowed == 0b0010
    assert sorted(looked_at) == ["n1", "n3"]
    assert sorted(nodes for _, _, nodes in rejected(pod_signatures, pod)) == [0b0101, 0b1000]


def test_nodes_that_the_pod_does_not_name_are_reported_as_kube_scheduler_reports_them() -> None:
    assert rejected(zoned("a", "b"), a_pod(affinity=named("n1"))) == [("NodeAffinity", NOT_NAMED, 0b01)]


def test_terms_that_name_nodes_and_exclude_each_other_leave_none() -> None:
    name = requires("metadata.name", "In", "n0")
    other = requires("metadata.name", "In", "n1")
    found, pod = zoned("a", "b"), a_pod(affinity=(Term(fields=(name, other)),))
    assert found.of(pod).allowed == 0
    assert rejected(found, pod) == [("NodeAffinity", NOT_NAMED, 0b11)]


def test_preferences_and_soft_taints_are_counted_for_each_node() -> None:
    soft = tuple(Taint(key, "", "PreferNoSchedule") for key in "xyz")
    nodes = of_nodes(
        a_node("a", {"zone": "a"}, taints=soft[:2]), a_node("b", {"zone": "b"}, taints=soft[2:]), a_node("c")
    )
    here, anywhere = a_term(requires("zone", "In", "a")), a_term(requires("zone", "Exists"))
    pod = a_pod(
        preferences=(Preference(5, here), Preference(2, anywhere), Preference(9, Term())),
        tolerations=(Toleration("x", "Exists", "", "PreferNoSchedule"), Toleration("y", "Exists", "", "NoSchedule")),
    )
    template = nodes.of(pod)
    assert list(template.counts_of("NodeAffinity", np.arange(3))) == [7, 2, 0]
    assert list(template.counts_of("TaintToleration", np.arange(3))) == [1, 1, 0]


def test_templates_with_many_words_leave_room_for_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod has room for thousands of terms and tolerations, and may be gone tomorrow."""
    monkeypatch.setattr(filters, "MOST_WORDS", 100)
    found = zoned("a", "b")
    for number in range(5):
        values = tuple(str(value) for value in range(25 * number, 25 * number + 25))
        terms = (a_term(Requirement("zone", "In", values)),)
        found.of(a_pod(affinity=terms, preferences=(Preference(1, terms[0]),), tolerations=(Toleration(),)))
    assert (len(found._known), found._known.weight) == (1, 55)
    last = found.of(a_pod(affinity=terms, preferences=(Preference(1, terms[0]),), tolerations=(Toleration(),)))
    assert list(found._known.values()) == [last]


def test_the_templates_that_were_not_asked_for_the_longest_are_forgotten() -> None:
    found = zoned("a")
    first = found.of(a_pod())
    for number in range(MOST_SIGNATURES - 1):
        found.of(a_pod(node_selector={"zone": str(number)}))
    assert found.of(a_pod()) is first
    for number in range(MOST_SIGNATURES):
        found.of(a_pod(node_selector={"other": str(number)}))
    assert found.of(a_pod()) is not first


@pytest.mark.parametrize(
    "changed",
    [
        {"node_selector": {"zone": "a"}},
        {"tolerations": (Toleration("k"),)},
        {"affinity": (a_term(Requirement("zone", "Exists")),)},
        {"preferences": (Preference(1, Term()),)},
        {"node_name": "n0"},
    ],
)
def test_pods_that_differ_in_what_filters_or_scores_read_share_no_template(changed: dict[str, Any]) -> None:
    found = zoned("a")
    assert found.of(a_pod(**changed)) is not found.of(a_pod())
    assert found.of(a_pod(name="x")) is found.of(a_pod(name="y", priority=7))


def test_a_template_that_takes_too_long_goes_on_where_it_was_stopped() -> None:
    left = 2

    def is_cancelled() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    found = PodSignatures(is_cancelled)
    for number in range(5):
        found.set_node(number, a_node(f"n{number}", taints=(TAINT,) if number == 1 else ()))
    for _ in range(2):
        left = 2
        with pytest.raises(Cancelled):
            found.of(a_pod())
    left = 1
    assert found.of(a_pod(name="another")).allowed == 0b11101


def without(*names: str) -> tuple[Plugin, ...]:
    sets = PluginSets(filter=PluginSet(disabled=frozenset(names)))
    return plugins_of(sets, {})


def test_filter_that_is_off_refuses_nothing_and_is_still_seen_by_others() -> None:
    pod_signatures = zoned("a", "b", plugins=without("NodeAffinity"))
    template = pod_signatures.of(a_pod(node_selector={"zone": "a"}))
    assert template.allowed == 0b11
    assert list(template.passed("NodeAffinity", 64)[:2]) == [True, False]
    assert not list(pod_signatures.rejections(template))


def test_nodes_that_a_pod_names_are_not_the_only_ones_where_nobody_asks() -> None:
    assert zoned("a", "b", plugins=without("NodeAffinity")).of(a_pod(affinity=named("n1"))).allowed == 0b11


def test_terms_about_other_pods_are_not_kept_with_what_nodes_say_of_one() -> None:
    """They may be megabytes, and the pod gone for long."""
    pod = a_pod(spread=(SpreadConstraint(1, "zone", ()),), pod_affinity=PodAffinity())
    before = sys.getrefcount(pod), sys.getrefcount(pod.spread), sys.getrefcount(pod.pod_affinity)
    found = of_nodes(a_node("a"))
    assert found.of(pod).allowed == 0b1
    assert (sys.getrefcount(pod), sys.getrefcount(pod.spread), sys.getrefcount(pod.pod_affinity)) == before
