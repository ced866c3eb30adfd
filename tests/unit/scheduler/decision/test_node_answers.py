from collections.abc import Iterator

from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced
from scheduler.decision.why_not import unfit
from scheduler.plugins.plugin import Cycle, Dynamic, Plugin, Reason, Rejected
from scheduler.plugins.profile import Profile
from tests.builders import a_node, a_pod, kubernetes


def test_filters_say_once_why_they_refuse_nodes_for_all_who_are_reported() -> None:
    asked: list[int] = []

    def rejections(_cycle: Cycle, nodes: int) -> Iterator[Rejected]:
        asked.append(nodes)
        yield Rejected("node(s) are full", nodes)

    plugin = Plugin("Full", (Reason("Full"),), dynamic=Dynamic(lambda _: 0b11, rejections))
    cluster = Cluster(kubernetes(), is_ours=bool, profiles=(Profile(plugins=(plugin,)),))
    for name in "ab":
        cluster.set_node(a_node(name))
    refused = decide(cluster, a_pod(), ())
    assert isinstance(refused, NotPlaced)
    assert refused.refusal.message == "0/2 nodes are available: 2 node(s) are full."
    reported = unfit(PodCycle(cluster, a_pod(), ()), refused)
    assert [(one.answer, one.nodes) for one in reported] == [("node(s) are full", 0b11)]
    assert asked == [0b11]
