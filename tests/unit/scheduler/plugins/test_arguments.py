"""What arguments change in plugins; scoring strategies aside."""

from typing import Any

from allocator.bits import bits
from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity, SpreadConstraint, WeightedTerm
from scheduler.core_v1.pod import Pod, Preference
from scheduler.core_v1.pod_selector import PodSelector
from scheduler.decision.filters import PodSignatures, feasible, rejections
from scheduler.plugins.inter_pod_affinity import inter_pod_affinity
from scheduler.plugins.node_affinity import node_affinity_plugins
from scheduler.plugins.node_resources_fit import Ignored, node_resources_fit
from scheduler.plugins.plugin import Plugin, Refusal, RefusedPod
from scheduler.plugins.pod_topology_spread import DefaultConstraints, pod_topology_spread
from scheduler.plugins.profile import PluginSets, plugins_of
from scheduler.queue import helps
from scheduler.state.cluster_changes import NodeChanged, PodChanged
from scheduler.state.labels import PodSelectors
from scheduler.state.masks import numbers_of
from scheduler.state.node_infos import NodeInfos
from scheduler.state.pods import pod_requests
from tests.builders import a_container, a_cycle, a_node, a_pod, a_term, amounts, requires

GPU = "example.com/gpu"
ZONE = "zone"


class World:
    """Nodes n0, n1 and so on in these zones."""

    def __init__(self, *zones: str, plugins: dict[str, tuple[Plugin, ...]]) -> None:
        self.plugins = plugins_of(PluginSets(), plugins)
        self.infos, self.templates, self.selectors = NodeInfos({}), PodSignatures(plugins=self.plugins), PodSelectors()
        for number, zone in enumerate(zones):
            node = a_node(f"n{number}", {ZONE: zone}, allocatable=amounts(cpu="4", memory="8Gi", pods="10"))
            self.infos.set_node(number, node)
            self.templates.set_node(number, node)

    def put(self, number: int, **more: Any) -> None:
        self.infos.add_pod(number, a_pod(name=f"other-{number}", **more))

    def feasible(self, pod: Pod) -> list[int]:
        return list(bits(feasible(self.cycle(pod), self.plugins)))

    def reasons(self, pod: Pod) -> list[str]:
        return [one.reason for _, one in rejections(self.cycle(pod), self.templates)]

    def scores(self, pod: Pod, name: str) -> list[int] | None:
        cycle, nodes = self.cycle(pod), numbers_of(0b11)
        score = next(one.score for one in self.plugins if one.name == name and one.score)
        found = score.scores(cycle, nodes, cycle.signature.counts_of(name, nodes))
        return None if found is None else [int(one) for one in found]

    def cycle(self, pod: Pod) -> Any:
        return a_cycle(pod, self.infos, self.templates, self.selectors)


def refused_by(plugin: Plugin, pod: Pod) -> Refusal:
    return Refusal(frozenset({plugin.reason}), pod_requests(pod))


# -- NodeResourcesFit


def test_ignored_resource_is_not_looked_for() -> None:
    pod = a_pod(a_container(**{GPU: "1"}))
    for ignored in (Ignored(frozenset({GPU})), Ignored(groups=frozenset({"example.com"}))):
        assert World("a", plugins={"NodeResourcesFit": (node_resources_fit(ignored=ignored),)}).feasible(pod) == [0]
    other = Ignored(frozenset({"example.com/other"}), frozenset({"example.org"}))
    assert not World("a", plugins={"NodeResourcesFit": (node_resources_fit(ignored=other),)}).feasible(pod)


def test_resources_of_kubernetes_cannot_be_ignored() -> None:
    plugin = node_resources_fit(ignored=Ignored(frozenset({"cpu"})))
    assert not World("a", plugins={"NodeResourcesFit": (plugin,)}).feasible(a_pod(a_container(cpu="5")))


def test_node_without_an_ignored_resource_helps() -> None:
    plugin, pod = node_resources_fit(ignored=Ignored(frozenset({GPU}))), a_pod(a_container(cpu="1", **{GPU: "1"}))
    event = NodeChanged(None, a_node(allocatable=amounts(cpu="4", memory="8Gi", pods="10")))
    assert helps(pod, refused_by(plugin, pod), event)
    assert not helps(pod, refused_by(node_resources_fit(), pod), event)


# -- NodeAffinity

IN_A = (a_term(requires(ZONE, "In", "a")),)


def test_added_affinity_is_required_of_every_pod() -> None:
    world = World("a", "b", plugins={"NodeAffinity": node_affinity_plugins(IN_A)})
    assert world.feasible(a_pod()) == [0]
    assert world.reasons(a_pod()) == ["node(s) didn't match scheduler-enforced node affinity"]
    assert world.reasons(a_pod(node_selector={ZONE: "b"})) == [
        "node(s) didn't match scheduler-enforced node affinity",
        "node(s) didn't match Pod's node affinity/selector",
    ]


def test_node_that_comes_to_match_the_added_affinity_helps() -> None:
    enforced, _ = node_affinity_plugins(IN_A)
    old, new = a_node("n", {ZONE: "b"}), a_node("n", {ZONE: "a"})
    assert helps(a_pod(), refused_by(enforced, a_pod()), NodeChanged(old, new))
    assert not helps(a_pod(), refused_by(enforced, a_pod()), NodeChanged(new, old))


def test_added_preferences_count_beside_the_pods_own() -> None:
    world = World("a", "b", plugins={"NodeAffinity": node_affinity_plugins(preferences=(Preference(10, IN_A[0]),))})
    assert world.scores(a_pod(), "NodeAffinity") == [100, 0]
    own = Preference(40, a_term(requires(ZONE, "In", "b")))
    assert world.scores(a_pod(preferences=(own,)), "NodeAffinity") == [25, 100]


# -- InterPodAffinity

WEB = AffinityTerm(ZONE, frozenset({"default"}), (requires("app", "In", "web"),), ())


def test_weight_of_required_terms_is_configured() -> None:
    for weight, expected in ((50, [100, 0]), (0, None)):
        world = World("a", "b", plugins={"InterPodAffinity": (inter_pod_affinity(weight),)})
        world.put(0, pod_affinity=PodAffinity(required=(WEB,)))
        assert world.scores(a_pod(labels={"app": "web"}), "InterPodAffinity") == expected


def test_preferences_of_pods_on_nodes_can_be_ignored() -> None:
    for ignores, expected in ((False, [100, 0]), (True, None)):
        plugin = inter_pod_affinity(ignore_preferred_terms_of_existing_pods=ignores)
        world = World("a", "b", plugins={"InterPodAffinity": (plugin,)})
        world.put(0, pod_affinity=PodAffinity(preferred=(WeightedTerm(5, WEB),)))
        assert world.scores(a_pod(labels={"app": "web"}), "InterPodAffinity") == expected


# -- PodTopologySpread

HARD = DefaultConstraints((SpreadConstraint(1, ZONE, ()),))
SOFT = DefaultConstraints((SpreadConstraint(1, ZONE, (), is_hard=False),))


def spread(defaults: DefaultConstraints) -> World:
    """A pod of a Service is in zone a."""
    world = World("a", "b", plugins={"PodTopologySpread": (pod_topology_spread(defaults),)})
    world.selectors.set(PodSelector("Service", "default", "web", (requires("app", "In", "web"),)))
    world.put(0, labels={"app": "web"})
    return world


def test_default_constraints_spread_the_pods_of_a_service() -> None:
    pod, other = a_pod(labels={"app": "web"}), a_pod(labels={"app": "db"})
    assert spread(HARD).feasible(pod) == [1]
    assert spread(HARD).feasible(other) == [0, 1]
    assert spread(HARD).scores(pod, "PodTopologySpread") is None
    assert spread(SOFT).feasible(pod) == [0, 1]
    assert spread(SOFT).scores(pod, "PodTopologySpread") == [0, 100]


def test_constraints_of_a_pod_go_before_the_defaults() -> None:
    own = SpreadConstraint(1, ZONE, (requires("app", "In", "db"),))
    assert spread(HARD).feasible(a_pod(labels={"app": "web"}, spread=(own,))) == [0, 1]


def test_no_default_constraints_score_nothing() -> None:
    assert spread(DefaultConstraints(())).scores(a_pod(labels={"app": "web"}), "PodTopologySpread") is None


def test_pod_that_goes_helps_one_that_a_default_constraint_refused() -> None:
    plugin, pod = pod_topology_spread(HARD), a_pod(labels={"app": "web"})
    gone = PodChanged(a_pod(name="other", labels={"app": "web"}, node_name="n0"), None)
    who = RefusedPod(pod, refused_by(plugin, pod))
    assert plugin.reason.hints[PodChanged](who, gone)
    assert not pod_topology_spread(SOFT).reason.hints[PodChanged](who, gone)
