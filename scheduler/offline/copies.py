"""How many more copies of a pod, a claim or a template fit, where, and what stops the next one."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from scheduler.core_v1.pod import Pod
from scheduler.input.identity import uid_of
from scheduler.input.inventory import InputClaim
from scheduler.offline.placement import HiddenError, Placement, PodToPlace, UnplacedPod


@dataclass(frozen=True, slots=True)
class FittingCopies:
    """How many copies fit, by node in the order in which they came. stopped: the first that does not fit.

    is_cut: there are as many as are tried, and more may fit. elsewhere: copies on nodes that by_node leaves out.
    hidden: where kube-scheduler gives up copies, with how many.
    """

    by_node: Mapping[str, int] = field(default_factory=dict)
    stopped: UnplacedPod | None = None
    is_cut: bool = False
    elsewhere: int = 0
    hidden: HiddenError | None = None

    @property
    def number(self) -> int:
        """Of all nodes."""
        return sum(self.by_node.values()) + self.elsewhere

    def on(self, nodes: Collection[str]) -> "FittingCopies":
        """The same, of which only these nodes are listed."""
        listed = {name: number for name, number in self.by_node.items() if name in nodes}
        return replace(self, by_node=listed, elsewhere=self.number - sum(listed.values()))


MOST_COPIES = 100_000
"""Copies that are tried, where nothing else stops them: admin access, for one, takes no device."""

Copy = Callable[[int], PodToPlace]
"""The copy of that number, ready to be placed."""


def fit(placement: Placement, copy: Copy, most: int | None, progress: Callable[[int], None]) -> FittingCopies:
    """Place copies until one does not fit, or there are so many, or MOST_COPIES. What is placed stays placed.

    Cost: a decision for each copy.
    """
    by_node: Counter[str] = Counter()
    hidden: HiddenError | None = None
    placement.tells_hidden_errors = True
    for number in range(MOST_COPIES if most is None else most):
        result = placement.take(copy(number))
        if isinstance(result, UnplacedPod):
            return FittingCopies(by_node, result, hidden=hidden)
        by_node[result.node] += 1
        hidden = hidden or result.hidden
        progress(number + 1)
    return FittingCopies(by_node, is_cut=most is None, hidden=hidden)


def copies_of_pod(placement: Placement, pod: Pod) -> Copy:
    """Pods like this one, which has not been created: claims of templates are made for each, named ones are shared."""

    def copy(number: int) -> PodToPlace:
        name = f"{pod.name}-copy-{number}"
        uid = uid_of("Pod", pod.namespace, name)
        plain = replace(pod, name=name, uid=uid, node_name="", nominated_node="", phase="", is_deleting=False)
        return placement.look(replace(plain, claim_statuses={}, conditions=(), device_fields=()))

    return copy


def copies_of_claim(placement: Placement, found: InputClaim) -> Copy:
    """Claims like this one, without its allocation; no pod uses them."""
    plain = replace(found.decoded, reserved_for=(), metadata=replace(found.metadata, deletion_timestamp=""))

    def copy(number: int) -> PodToPlace:
        name = f"{found.claim.name}-copy-{number}"
        uid = uid_of("ResourceClaim", found.claim.namespace, name)
        claim = replace(found.claim, name=name, uid=uid, allocation=None)
        placement.claims.keep(InputClaim(claim, plain))
        return placement.look_at_claim(claim)

    return copy
