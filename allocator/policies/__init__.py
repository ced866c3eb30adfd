"""The built-in policies by name; `allocator.policies.contract` says what a policy is."""

from collections.abc import Callable, Mapping, Sequence

from allocator.policies.contract import FIRST_FIT, Policy, Scoring
from allocator.policies.fill_value import FillValue
from allocator.policies.least_fragmentation import LeastFragmentation
from allocator.policies.min_fragmentation import MinFragmentation
from allocator.policies.own import UnusableClass, guarded, names_a_class, policy_of_class
from allocator.policies.pack import Pack, Spread
from allocator.policies.power import DEFAULT_WEIGHT, Power, WithPower
from allocator.policies.published import FGD, BestFit, DotProduct, GpuClustering, GpuPacking, Random
from allocator.policies.whole_nodes import NodePolicy
from allocator.words import did_you_mean


class UnknownPolicy(ValueError):
    """There is no policy of that name, it takes no such attributes, or a class of the user's is not one."""


def policy_of(text: str) -> Policy:
    """The policy of `NAME`, `NAME:ATTRIBUTE,...` or, for a user's class, `MODULE:CLASS`. Raises UnknownPolicy."""
    base, plus, addition = text.partition("+")
    if plus:
        return _with_power(policy_of(base), addition)
    name, colon, rest = text.partition(":")
    if name in _PLAIN:
        if colon:
            raise UnknownPolicy(f"policy {name} takes no attributes")
        return _PLAIN[name]
    if name not in _BY_ATTRIBUTES and names_a_class(text):
        return _of_class(text)
    if name not in _BY_ATTRIBUTES:
        raise UnknownPolicy(f"{name!r} is not among the policies: {', '.join(NAMES)}{did_you_mean(name, NAMES)}")
    if not colon:
        return _BY_ATTRIBUTES[name](())
    return _BY_ATTRIBUTES[name]([_qualified(attribute.strip()) for attribute in rest.split(",")])


def _with_power(policy: Policy, addition: str) -> Policy:
    name, colon, text = addition.partition(":")
    if name != Power.name:
        raise UnknownPolicy(f"{addition!r} cannot be added to a policy: only power[:WEIGHT] can")
    if not isinstance(policy, NodePolicy) or policy.scoring is not Scoring.BY_NODE:
        raise UnknownPolicy(f"power cannot be added to {policy.name}: it does not look at whole nodes one by one")
    try:
        weight = float(text) if colon else DEFAULT_WEIGHT
    except ValueError:
        weight = -1.0
    if not 0 < weight < 1:
        raise UnknownPolicy(f"weight {text!r} of power is not a number between 0 and 1")
    return WithPower(policy, weight)


def _of_class(text: str) -> Policy:
    try:
        policy = policy_of_class(text)
    except UnusableClass as error:
        raise UnknownPolicy(str(error)) from error
    if policy.name in NAMES:
        raise UnknownPolicy(f"{text}: the name {policy.name!r} is that of a built-in policy")
    return guarded(policy)


def _qualified(attribute: str) -> str:
    domain, _, name = attribute.rpartition("/")
    if not domain or not name:
        raise UnknownPolicy(f"attribute {attribute!r} has no domain: write it as in resource.kubernetes.io/numaNode")
    return attribute


def _least_fragmentation(attributes: Sequence[str]) -> Policy:
    return LeastFragmentation(attributes) if attributes else LeastFragmentation()


def _topology(attributes: Sequence[str]) -> Policy:
    # To import networkx takes a fifth of a second, which most other policies save.
    from allocator.policies.topology import TopologyPolicy

    return TopologyPolicy(attributes)


_WHOLE_NODES: Sequence[Policy] = (
    FGD(),
    BestFit(),
    DotProduct(),
    GpuPacking(),
    GpuClustering(),
    Random(),
    FillValue(),
    Power(),
)
_PLAIN: Mapping[str, Policy] = {
    FIRST_FIT.name: FIRST_FIT,
    Pack.name: Pack(),
    Spread.name: Spread(),
    MinFragmentation.name: MinFragmentation(),
    **{policy.name: policy for policy in _WHOLE_NODES},
}
_BY_ATTRIBUTES: Mapping[str, Callable[[Sequence[str]], Policy]] = {
    LeastFragmentation.name: _least_fragmentation,
    "topology": _topology,
}
NAMES = (*_PLAIN, *_BY_ATTRIBUTES)
"""All policies by name, the default first."""
