"""The number of pods that came with a node and without devices is that of a look at all pods, whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from allocator.model import Claim
from scheduler.core_v1.pod import Pod, PodClaim, claim_keys
from scheduler.live.program import Prescheduled
from scheduler.state.cluster_changes import ClaimChanged, GivenBack, PodChanged
from tests.builders import a_claim, a_pod, an_allocated_claim

CLAIMS = ("a", "b")

pods = st.builds(
    lambda name, entries, node, phase: a_pod(
        name=name,
        claims=tuple(PodClaim(claim, claim_name=claim) for claim in entries[0])
        + tuple(PodClaim(claim, template_name="one") for claim in entries[1]),
        claim_statuses={claim: claim for claim in entries[1]},
        node_name=node,
        phase=phase,
    ),
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from([((), ()), (("a",), ()), (("a", "b"), ()), (("a",), ("b",)), ((), ("a", "b"))]),
    st.sampled_from(["", "node"]),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
)
claims = st.one_of(
    st.builds(lambda name: a_claim(name=name), st.sampled_from(CLAIMS)),
    st.builds(lambda name: an_allocated_claim("gpu-0", name=name), st.sampled_from(CLAIMS)),
)
changes = st.one_of(
    st.none(), pods, claims, st.tuples(st.sampled_from(["pod", "claim"]), st.sampled_from(["x", "y", "a", "b"]))
)


class World:
    """What the cluster knows."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.claims: dict[tuple[str, str], Claim] = {}
        self.counted = Prescheduled(self.is_so)

    def is_so(self, pod: Pod) -> bool:
        found = [self.claims.get(key) for key in claim_keys(pod)]
        return any(claim is None or claim.allocation is None for claim in found)

    def number(self) -> int:
        return sum(
            bool(pod.node_name) and bool(pod.claims) and not pod.is_over and self.is_so(pod)
            for pod in self.pods.values()
        )

    def set_pod(self, uid: str, pod: Pod | None) -> None:
        old = self.pods.pop(uid, None)
        if pod is not None:
            self.pods[uid] = pod
        self.counted.on_event(PodChanged(old, pod))

    def set_claim(self, key: tuple[str, str], claim: Claim | None) -> None:
        old = self.claims.pop(key, None)
        if claim is not None:
            self.claims[key] = claim
        if old is not None or claim is not None:
            self.counted.on_event(ClaimChanged(old, claim))


@given(st.lists(changes, max_size=30))
def test_number_is_that_of_a_look_at_all_pods(happened: list[Pod | Claim | tuple[str, str] | None]) -> None:
    """Whenever somebody asks, which is not after each change."""
    world = World()
    for change in happened:
        match change:
            case None:
                assert len(world.counted) == world.number()
            case Pod():
                world.set_pod(change.uid, change)
                world.counted.on_event(GivenBack(change))
            case Claim():
                world.set_claim((change.namespace, change.name), change)
            case ("pod", name):
                world.set_pod(f"uid-{name}", None)
            case (_, name):
                world.set_claim(("default", name), None)
    counted = sum(uid in world.counted for uid in world.pods)
    assert counted == len(world.counted) == world.number()
    for uid in list(world.pods):
        world.set_pod(uid, None)
    assert (world.counted._placed, world.counted._users, world.counted._not_looked_at) == ({}, {}, {})
    assert len(world.counted) == 0
