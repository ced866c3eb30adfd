from collections.abc import Sequence

import pytest

from allocator.model import Node, Taint
from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity, SpreadConstraint, equal_labels
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.resources import HostPort
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle
from scheduler.decision.why_not import PluginRefusal, plugin_refusal, refusing_plugins
from tests.builders import a_container, a_node, a_pod, a_term, amounts, kubernetes, requires

ROOM = amounts(cpu="4", memory="8Gi", pods="10")
WEB = equal_labels({"app": "web"})
NEAR_WEB = AffinityTerm("zone", frozenset({"default"}), WEB)


def in_zone(name: str, zone: str = "a", **more: object) -> Node:
    return a_node(name, {"zone": zone}, allocatable=ROOM, **more)


def web(name: str = "web", node: str = "n", **more: object) -> Pod:
    return a_pod(a_container(cpu="1"), name=name, node_name=node, labels={"app": "web"}, **more)


def refusal(pod: Pod, nodes: Sequence[Node], *others: Pod) -> PluginRefusal | None:
    """Who refuses the first of the nodes."""
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    for node in nodes:
        cluster.set_node(node)
    for other in others:
        cluster.set_pod(other)
    number = cluster.number_of(nodes[0].name)
    assert number is not None
    found = plugin_refusal(PodCycle(cluster, pod, ()), nodes[0], number)
    assert (found.plugin if found else None) == refusing_plugins(PodCycle(cluster, pod, ())).get(nodes[0].name)
    return found


@pytest.mark.parametrize(
    ("node", "pod", "plugin", "remedies"),
    [
        (in_zone("n", unschedulable=True), a_pod(), "NodeUnschedulable", ["node n uncordoned"]),
        (
            in_zone("n", taints=(Taint("a", "x", "NoSchedule"), Taint("b", "", "NoExecute"))),
            a_pod(),
            "TaintToleration",
            ["taints a=x:NoSchedule, b:NoExecute tolerated"],
        ),
        (
            in_zone("n"),
            a_pod(node_selector={"zone": "a", "disk": "ssd"}, affinity=(a_term(requires("gpu", "Exists")),)),
            "NodeAffinity",
            ["nodeSelector disk=ssd, required node affinity dropped"],
        ),
        (in_zone("n"), a_pod(a_container(cpu="6")), "NodeResourcesFit", ["the pod requests at most cpu 4"]),
        (in_zone("n"), a_pod(a_container(memory="16Gi")), "NodeResourcesFit", ["the pod requests at most memory 8Gi"]),
        (in_zone("n"), a_pod(a_container(gpu__x="1")), "NodeResourcesFit", []),
        (
            in_zone("n"),
            a_pod(pod_affinity=PodAffinity(required=(NEAR_WEB,))),
            "InterPodAffinity",
            ["required pod affinity #0 (topologyKey zone) dropped"],
        ),
        (
            a_node("n", {}, allocatable=ROOM),
            a_pod(spread=(SpreadConstraint(1, "zone", WEB),)),
            "PodTopologySpread",
            ["topology spread constraint #0 (topologyKey zone) dropped"],
        ),
    ],
)
def test_the_plugin_that_refuses_is_named_with_the_changes_that_help(
    node: Node, pod: Pod, plugin: str, remedies: list[str]
) -> None:
    assert refusal(pod, [node]) == PluginRefusal(plugin, tuple(remedies))


def test_a_change_after_which_another_plugin_refuses_is_none_that_helps() -> None:
    node = in_zone("n", unschedulable=True, taints=(Taint("a", "", "NoSchedule"),))
    assert refusal(a_pod(), [node]) == PluginRefusal("NodeUnschedulable")
    assert refusal(a_pod(), [in_zone("n")]) is None


def test_pods_that_would_have_to_go_are_named() -> None:
    port = (HostPort(80),)
    on_port = refusal(a_pod(host_ports=port), [in_zone("n")], web(host_ports=port), web("other"))
    assert on_port == PluginRefusal("NodePorts", ("pod default/web gone",))
    pods = [web(f"web-{number}") for number in range(3)]
    full = refusal(a_pod(a_container(cpu="3")), [in_zone("n")], *pods)
    assert full == PluginRefusal(
        "NodeResourcesFit", ("the pod requests at most cpu 1", "pods default/web-0, default/web-1 gone")
    )


def test_pods_anywhere_in_the_domain_that_are_kept_apart_are_named() -> None:
    apart = PodAffinity(required_anti=(NEAR_WEB,))
    nodes, others = [in_zone("n"), in_zone("m"), in_zone("far", "b")], [web(node="m"), web("far", "far")]
    reported = ("required pod anti-affinity #0 (topologyKey zone) dropped", "pod default/web gone")
    assert refusal(a_pod(pod_affinity=apart), nodes, *others) == PluginRefusal("InterPodAffinity", reported)
    keeper = a_pod(name="keeper", node_name="m", pod_affinity=apart)
    assert refusal(a_pod(labels={"app": "web"}), nodes, keeper) == PluginRefusal(
        "InterPodAffinity", ("pod default/keeper gone",)
    )


def test_the_skew_that_would_do_is_reported() -> None:
    nodes, others = [in_zone("n"), in_zone("far", "b")], [web("x"), web("y")]
    spread = a_pod(labels={"app": "web"}, spread=(SpreadConstraint(1, "zone", WEB),))
    reported = ("topology spread constraint #0 (topologyKey zone): maxSkew 3",)
    assert refusal(spread, nodes, *others) == PluginRefusal("PodTopologySpread", reported)


def test_looking_for_a_remedy_changes_nothing() -> None:
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    cluster.set_node(in_zone("n"))
    cluster.set_pod(web())
    pod = a_pod(a_container(cpu="4"))
    first = plugin_refusal(PodCycle(cluster, pod, ()), in_zone("n"), 0)
    assert first == plugin_refusal(PodCycle(cluster, pod, ()), in_zone("n"), 0)
    assert int(cluster.infos.columns["cpu"].free[0]) == 3000
