"""Whatever happens in whatever order, a pod counts once, where the watch shows it or else where it is assumed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core_v1.pod import Pod
from scheduler.state.pods import NodePods
from tests.builders import a_pod

NODES = ("node-0", "node-1", "node-2")
PODS = ("a", "b", "c")


@dataclass
class NodePodsRoom:
    """What is counted, by number of the node and uid; adding twice or removing what is not there is an error.

    Of a pod only its generation counts.
    """

    counted: dict[tuple[int, str], int] = field(default_factory=dict)

    def add_pod(self, number: int, pod: Pod) -> None:
        assert (number, pod.uid) not in self.counted
        self.counted[number, pod.uid] = pod.generation

    def remove_pod(self, number: int, pod: Pod) -> None:
        assert self.counted.pop((number, pod.uid)) == pod.generation

    def take_away(self, number: int, pod: Pod) -> Callable[[], None]:
        self.remove_pod(number, pod)
        return partial(self.add_pod, number, pod)

    def change_pod(self, number: int, old: Pod, new: Pod) -> None:
        assert self.counted[number, old.uid] == old.generation
        self.counted[number, new.uid] = new.generation


@dataclass
class NaivePods:
    numbers: dict[str, int] = field(default_factory=dict)
    watched: dict[str, Pod] = field(default_factory=dict)
    assumed: dict[str, str] = field(default_factory=dict)

    def expected(self) -> set[tuple[int, str]]:
        places = {uid: pod.node_name or self.assumed.get(uid, "") for uid, pod in self.watched.items()}
        places |= {uid: node for uid, node in self.assumed.items() if uid not in places}
        return {(self.numbers[node], uid) for uid, node in places.items() if node in self.numbers}


STEPS = ("node", "node", "pod", "pod", "bind", "bind", "resize", "remove", "assume", "assume", "forget", "end")
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2), st.integers(0, 2)), max_size=60)


def take(pods: NodePods, naive: NaivePods, step: str, name: str, node: str) -> None:
    uid = f"uid-{name}"
    known = naive.watched.get(uid)
    match step:
        case "node" if node in naive.numbers:
            pods.node_goes(node)
            del naive.numbers[node]
        case "node":
            naive.numbers[node] = next(number for number in range(9) if number not in naive.numbers.values())
            pods.node_comes(node)
        case "pod" if known is None:
            show(pods, naive, a_pod(name=name))
        case "bind" if known is not None and not known.node_name:
            show(pods, naive, replace(known, node_name=node))
        case "resize" if known is not None:
            show(pods, naive, replace(known, generation=known.generation + 1))
        case "remove" | "end" if known is not None:
            pods.remove(uid) if step == "remove" else pods.set(replace(known, phase="Failed"))
            del naive.watched[uid]
            naive.assumed.pop(uid, None)
        case "assume" if known is not None and not known.node_name:
            pods.assume(known, node)
            naive.assumed[uid] = node
        case "forget":
            pods.forget(uid)
            naive.assumed.pop(uid, None)


def show(pods: NodePods, naive: NaivePods, pod: Pod) -> None:
    pods.set(pod)
    naive.watched[pod.uid] = pod
    if pod.node_name:
        naive.assumed.pop(pod.uid, None)


@given(steps)
def test_pods_count_where_they_are_or_are_assumed(taken: list[tuple[str, int, int]]) -> None:
    room, naive = NodePodsRoom(), NaivePods()
    pods = NodePods(naive.numbers, room)
    for step, pod, node in taken:
        take(pods, naive, step, PODS[pod], NODES[node])
        assert set(room.counted) == naive.expected()
        for uid, one in naive.watched.items():
            if one.node_name in naive.numbers:
                assert room.counted[naive.numbers[one.node_name], uid] == one.generation
                assert any(pod is one for _, pod in pods.on_nodes())
            assert (pods.bound(uid) is one) == bool(one.node_name)
