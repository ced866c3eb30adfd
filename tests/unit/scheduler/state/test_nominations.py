from dataclasses import replace

from scheduler.core_v1.pod import Pod
from scheduler.state.node_infos import Nominations
from tests.builders import a_pod


def promised(name: str, node: str = "n1", priority: int | None = 0, **more: str) -> Pod:
    return replace(a_pod(name=name, uid=name), nominated_node=node, priority=priority, **more)  # type: ignore[arg-type]


def before(pod: Pod, *known: Pod, placed: str = "") -> dict[str, list[str]]:
    """The pods that go before, by node."""
    nominations = Nominations(lambda uid: uid == placed)
    for one in known:
        nominations.set(one)
    return {node: sorted(one.pod.name for one in pods) for node, pods in nominations.before(pod)}


def test_pods_of_the_same_or_a_higher_priority_go_before() -> None:
    known = promised("low", priority=-1), promised("same", priority=None), promised("high", "n2", priority=7)
    assert before(promised("p"), *known) == {"n1": ["same"], "n2": ["high"]}


def test_a_pod_does_not_go_before_itself() -> None:
    assert before(promised("p"), promised("p")) == {}


def test_a_pod_that_is_somewhere_or_has_ended_is_promised_nothing() -> None:
    assert before(promised("p"), promised("q", node_name="n1")) == {}
    assert before(promised("p"), promised("q", phase="Succeeded")) == {}
    assert before(promised("p"), promised("q"), placed="q") == {}
    assert before(promised("p"), promised("q", "")) == {}


def test_the_latest_promise_counts_and_goes_with_its_pod() -> None:
    assert before(promised("p"), promised("q"), promised("q", "n2")) == {"n2": ["q"]}
    nominations = Nominations(lambda _: False)
    nominations.set(promised("q"))
    nominations.remove("q")
    nominations.remove("q")
    assert dict(nominations.before(promised("p"))) == {}
