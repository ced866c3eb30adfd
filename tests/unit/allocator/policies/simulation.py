"""Fleets that fill and empty under a policy, and single questions; as deterministic as what they are given."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from allocator.allocate import allocate
from allocator.cluster.snapshot import Snapshot
from allocator.gates import Features
from allocator.model import Claim, Node, Slice
from allocator.outcome import Allocated
from allocator.policies import policy_of
from tests.builders import a_class, a_node, kubernetes


def answer(
    policy: str,
    slices: Iterable[Slice],
    *claims: Claim,
    held: Iterable[Claim] = (),
    node: str = "n",
    features: Features | None = None,
) -> Allocated:
    """What the claims get on the node."""
    snapshot = Snapshot.of(slices, (a_class(),), held, features or kubernetes())
    outcome = allocate(snapshot, a_node(node), claims, policy=policy_of(policy))
    assert isinstance(outcome, Allocated), outcome
    return outcome


def chosen(policy: str, slices: Iterable[Slice], *claims: Claim, held: Iterable[Claim] = ()) -> list[str]:
    """The names of the devices that the claims get on node `n`, in order."""
    allocations = answer(policy, slices, *claims, held=held).allocations
    return [result.device for allocation in allocations for result in allocation.results]


class Simulation:
    """A cluster under a policy: claims come and go, each on the best node."""

    def __init__(self, policy: str, slices: Iterable[Slice], features: Features | None = None) -> None:
        self.policy = policy_of(policy)
        self.held: dict[str, Claim] = {}
        self.placed_on: dict[str, str] = {}
        self._slices = tuple(slices)
        self._features = features or kubernetes()
        names = dict.fromkeys(slice_.reach.node_name for slice_ in self._slices if slice_.reach.node_name)
        self.nodes: Sequence[Node] = [a_node(name) for name in sorted(names)]

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot.of(self._slices, (a_class(),), self.held.values(), self._features)

    def place(self, claim: Claim) -> bool:
        """Allocate the claim on the node with the highest score, the first of equals; False where there is none."""
        best: tuple[Node, Allocated] | None = None
        snapshot = self.snapshot
        for node in self.nodes:
            answer = allocate(snapshot, node, [claim], policy=self.policy)
            if isinstance(answer, Allocated) and (best is None or answer.score > best[1].score):
                best = (node, answer)
        if best is None:
            return False
        self.held[claim.name] = replace(claim, allocation=best[1].allocations[0])
        self.placed_on[claim.name] = best[0].name
        return True

    def hold(self, claim: Claim) -> None:
        """Begin with a claim that holds devices already."""
        self.held[claim.name] = claim

    def release(self, name: str) -> None:
        del self.held[name], self.placed_on[name]

    def devices_of(self, name: str) -> list[str]:
        """The names of the devices that the claim holds."""
        allocation = self.held[name].allocation
        assert allocation is not None
        return [result.device for result in allocation.results]

    @property
    def empty_nodes(self) -> list[str]:
        return [node.name for node in self.nodes if node.name not in self.placed_on.values()]
