"""Small clusters as the extender sees them, with pods that hold devices and one that is asked about; and the truth.

The truth is the allocator's answer to each node by itself, from a snapshot that is made anew.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

from allocator.allocate import BUDGET_STEPS, allocate
from allocator.cluster.snapshot import Snapshot
from allocator.model import Allocation, Claim, Node, NodeSelector, Slice
from allocator.outcome import AllocationError, Outcome
from allocator.policies import policy_of
from allocator.policies.contract import Policy
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.filters import LABEL
from scheduler.plugins.profile import Profile
from scheduler.state.invariants import is_reached
from tests.builders import a_pod, a_user, an_allocated_claim, named, watched
from tests.properties.allocator.choices import Choices, Values
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.instances import a_holding
from tests.properties.allocator.test_fleet import NODES, a_sequel

POLICIES = tuple(map(policy_of, ("first-fit", "pack", "spread", "least-fragmentation")))
PODS = tuple("abcde")
"""Pods on nodes, which may be evicted."""

FAILS: Literal["fails"] = "fails"
"""The answer of a node that ends the attempt on every node."""


@dataclass(frozen=True)
class World:
    """A cluster, and a question.

    held: the other claims, with the names of their users, of whom some may not be on a node. own: those of the pod that
    is asked about, with the names of their other users. names: of the nodes that are asked about, some not known.
    victims: names of pods by node.
    """

    instance: Instance
    policy: Policy
    budget_steps: int
    held: tuple[tuple[Claim, tuple[str, ...]], ...]
    own: tuple[tuple[Claim, tuple[str, ...]], ...]
    names: tuple[str, ...]
    victims: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def pod(self) -> Pod:
        return a_user("asked", *(claim.name for claim, _ in self.own))

    @property
    def pending(self) -> list[Claim]:
        return [claim for claim, _ in self.own if claim.allocation is None]

    @cached_property
    def nodes(self) -> dict[str, Node]:
        return {node.name: node for node in self.instance.nodes}

    def cluster(self) -> Cluster:
        """As the watches would have filled it."""
        features = self.instance.features
        found = Cluster(
            features, is_ours=lambda _: True, profiles=(Profile(policy=self.policy),), budget_steps=self.budget_steps
        )
        found.set_namespace(Namespace("default", {LABEL: "true"}))
        for device_class in self.instance.classes:
            found.set_class(device_class)
        for node in self.instance.nodes:
            found.set_node(node)
        for slice_ in self.instance.slices:
            found.set_slice(slice_)
        for claim, users in (*self.held, *self.own):
            found.set_claim(watched(claim, users=[a_pod(name=user) for user in users]), 1)
        for name in PODS:
            # A pod that came to its node without us may use a claim that is reserved for nobody.
            used = [claim.name for claim, users in (*self.held, *self.own) if name in users or not users]
            found.set_pod(a_user(name, *used, node_name="node-0"))
        return found

    def is_reached(self, name: str) -> bool:
        """Whether all that the pod has can be used on the node, which is there."""
        node = self.nodes.get(name)
        selectors = [claim.allocation.node_selector for claim, _ in self.own if claim.allocation]
        return node is not None and all(one is None or is_reached(one, node) for one in selectors)

    def outcome(self, name: str, gone: Collection[str] = ()) -> Outcome | Literal["fails"]:
        """What the node says once these pods are gone."""
        kept = [claim for claim, users in self.held if not users or not set(users) <= set(gone)]
        held = [*kept, *(claim for claim, _ in self.own if claim.allocation)]
        snapshot = Snapshot.of(self.instance.slices, self.instance.classes, held, self.instance.features)
        try:
            return allocate(
                snapshot, self.nodes[name], self.pending, budget_steps=self.budget_steps, policy=self.policy
            )
        except AllocationError:
            return FAILS


def worlds(about: str) -> Values[World]:
    """Worlds about an aspect of the API."""
    return Values(partial(a_world, about=about))


def a_world(draw: Choices, about: str) -> World:
    """Four nodes that are much alike, and claims of one device each with up to two users."""
    sequel = a_sequel(draw, about)
    instance = replace(sequel.cluster, slices=tuple(map(renamed, sequel.cluster.slices)))
    allocations = [claim.allocation for claim in instance.held if claim.allocation]
    results = [result for one in allocations for result in one.results]
    held = tuple((an_allocated_claim(one, name=f"held-{n}"), users(draw)) for n, one in enumerate(results))
    questions = [claim for claim, _ in sequel.questions]
    own: list[tuple[Claim, tuple[str, ...]]] = [(claim, ()) for claim in questions[: draw.pick((1, 1, 1, 2))]]
    if draw.rarely(3):
        own.append((an_allocated(draw, questions[-1], instance.slices, about), users(draw)))
    asked = [*(f"node-{number}" for number in range(NODES)), *("unknown",) * draw.rarely(3)]
    return World(
        instance,
        draw.pick(POLICIES),
        draw.pick((BUDGET_STEPS, BUDGET_STEPS, 3)),
        held,
        tuple(own),
        tuple(some(draw, asked)),
        tuple((node, tuple(some(draw, PODS))) for node in asked),
    )


def renamed(slice_: Slice) -> Slice:
    """The slice under a name that no other one has, in the same order as before in its pool."""
    return replace(slice_, name=f"{slice_.driver}-{slice_.pool}-{slice_.name}")


def users(draw: Choices) -> tuple[str, ...]:
    """Of a claim: mostly pods on nodes, now and then one that is on none, or nobody."""
    return tuple(sorted({draw.pick((*PODS, *PODS, "elsewhere")) for _ in range(draw.pick((1, 1, 1, 2, 0)))}))


def an_allocated(draw: Choices, claim: Claim, slices: Sequence[Slice], about: str) -> Claim:
    """The claim with a device, or with none where there is none, that some nodes reach."""
    every = [device for slice_ in slices for device in slice_.devices]
    results = (a_holding(draw, frozenset((about,)), draw.pick(every), "own"),) if every else ()
    selectors: tuple[NodeSelector | None, ...] = (None, named("node-0"), named("node-1"), named("node-9"))
    return replace(claim, name="own", uid="uid-own", allocation=Allocation(results, node_selector=draw.pick(selectors)))


def some(draw: Choices, options: Iterable[str]) -> list[str]:
    """Some of them, in their order or in the other one."""
    found = [one for one in options if draw.pick((True, True, False))]
    return found[:: draw.pick((1, -1))]
