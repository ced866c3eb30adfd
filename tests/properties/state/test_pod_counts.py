"""Whatever happens in whatever order, counts of pods by node and domain are those of a recount: nothing drifts."""

from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core_v1.label_selectors import equal_labels
from scheduler.core_v1.pod import Pod
from scheduler.decision.pod_cycle import PodCycle
from scheduler.state.labels import Domains
from scheduler.state.masks import Numbers, numbers_of
from scheduler.state.pods_by_labels import MatchingPods, SelectedPods
from tests.builders import a_pod
from tests.properties.state.counted_world import KEYS, NAMESPACES, CountedWorld, Meant, Step, meant, steps

RED = {"team": "red"}


@given(steps, st.lists(st.lists(meant, min_size=1, max_size=2, unique=True), min_size=1, max_size=3), st.integers(1, 4))
@settings(max_examples=150)
def test_counts_follow_all_that_happens(steps: list[Step], questions: list[list[Meant]], often: int) -> None:
    """It is asked now and then, so that what is kept has to follow several events."""
    world = CountedWorld()
    for name in NAMESPACES:
        world.set_namespace(name, RED)
    for number, (step, *arguments) in enumerate(steps):
        getattr(world, step)(*arguments)
        if number % often == 0 or number == len(steps) - 1:
            for one in questions:
                pods_that_match_are_counted(world, one)
            pods_that_are_selected_are_counted(world)
            terms_are_heard(world)


def pods_that_match_are_counted(world: CountedWorld, question: list[Meant]) -> None:
    infos, asked = world.cluster.infos, MatchingPods(tuple(one.term("zone") for one in question))
    on_nodes = world.met(question)
    assert by_node(world, infos.pods.on_nodes(asked)) == on_nodes
    for key in KEYS:
        domains = infos.topology.domains(key)
        assert by_domain(domains, infos.pods.in_domains(asked, domains)) == world.in_domains(on_nodes, key)


def pods_that_are_selected_are_counted(world: CountedWorld) -> None:
    """As hard spread constraints ask: over the nodes that have both keys."""
    infos = world.cluster.infos
    for app in ("web", "db"):
        question = SelectedPods("default", equal_labels({"app": app}))
        on_nodes = world.selected("default", app)
        assert by_node(world, infos.pods.on_nodes(question)) == on_nodes
        for key, beside in (KEYS, KEYS[::-1]):
            domains = with_both(world, key, beside)
            assert by_domain(domains, infos.pods.in_domains(question, domains)) == world.in_domains(
                on_nodes, key, beside
            )


def with_both(world: CountedWorld, key: str, beside: str) -> Domains:
    """The domains of the nodes with both keys, kept until nodes change, as decisions keep them."""
    pod, topology = a_pod(), world.cluster.infos.topology
    template = world.cluster.signatures_of(pod).of(pod)

    def found() -> Domains:
        return topology.domains(key).within(topology.domains(beside).labelled)

    return template.domains_within((key, beside), topology.version, found)


def terms_are_heard(world: CountedWorld) -> None:
    for namespace in NAMESPACES:
        for app in ("web", "db"):
            pod = Pod(namespace, "new", "uid-new", labels={"app": app})
            terms = PodCycle(world.cluster, pod, ()).view.infos.terms
            kept = {world.cluster.name_of(int(number)) for number in numbers_of(terms.kept_from(pod))}
            assert kept == world.kept_from(pod)
            wanted = np.zeros(world.cluster.infos.size, np.int64)
            for weight, near in terms.wanting(pod, required_weight=1):
                wanted += weight * near
            assert by_node(world, wanted) == {name: sum_ for name, sum_ in world.wanted(pod).items() if sum_}


def by_node(world: CountedWorld, counts: Numbers) -> Mapping[str, int]:
    """The counts that are not 0; numbers that no node has have none."""
    names = {world.cluster.number_of(name): name for name in world.nodes}
    return {names[int(number)]: int(counts[number]) for number in counts.nonzero()[0]}


def by_domain(domains: Domains, sums: Numbers) -> Mapping[str, int]:
    """Of the domains that nodes are in; all others have none."""
    values = {position: value for value, position in domains.positions.items()}
    present = {int(one) for one in domains.present}
    assert not any(int(found) for position, found in enumerate(sums) if position not in present)
    return {values[position]: int(sums[position]) for position in present}
