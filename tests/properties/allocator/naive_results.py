"""The naive search's writing down: `status.allocation` of one claim.

Source: resource.k8s.io/v1 AllocationResult, KEP-4381, KEP-4816.
"""

from collections.abc import Iterator, Mapping, Sequence

from allocator.gates import OPTIONAL_NODE_OPERATIONS, Features
from allocator.model import (
    Allocation,
    Claim,
    DeviceClass,
    DeviceResult,
    Node,
    NodeSelector,
    Requirement,
    ResultConfig,
    Term,
)
from allocator.outcome import InvalidPool
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.naive_devices import Given, is_shareable, part_of

SHARE_ID = "a share"
"""Ids of shares are not compared; all of them are this one."""


def written(claim: Claim, picks: Sequence[Given], instance: Instance, node: Node) -> Allocation:
    chosen = {request.name: chosen_name(request.name, picks) for request in claim.requests}
    config = tuple(config_of(claim, chosen, {one.name: one for one in instance.classes}, instance.features))
    results = tuple(result_of(pick, instance.features) for pick in picks)
    return Allocation(results, config, node_selector(picks, node))


def chosen_name(request: str, picks: Sequence[Given]) -> str:
    """The name of the alternative that the request got its devices by."""
    return next(p.alternative.name for p in picks if p.alternative.name.partition("/")[0] == request)


def result_of(pick: Given, features: Features) -> DeviceResult:
    device, alternative = pick.device, pick.alternative
    share = part_of(device, alternative, features) if is_shareable(device, features) else None
    return DeviceResult(
        request=alternative.name,
        driver=device.driver,
        pool=device.pool,
        device=device.name,
        admin_access=bool(alternative.admin_access),
        tolerations=alternative.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id="" if share is None else SHARE_ID,
        consumed_capacity=share or {},
        skip_node_operations=pick.published.slice_.skip_node_operations
        if features.has(OPTIONAL_NODE_OPERATIONS)
        else (),
    )


def config_of(
    claim: Claim, chosen: Mapping[str, str], classes: Mapping[str, DeviceClass], features: Features
) -> Iterator[ResultConfig]:
    for config in (*of_classes(claim, chosen, classes), *of_claim(claim, chosen, features)):
        names_all = all(request in config.requests or name in config.requests for request, name in chosen.items())
        is_cleared = names_all and features.release.clears_covering_config
        yield ResultConfig(config.source, (), config.opaque) if is_cleared else config


def of_classes(claim: Claim, chosen: Mapping[str, str], classes: Mapping[str, DeviceClass]) -> Iterator[ResultConfig]:
    used = [(name, class_name(claim, name)) for name in chosen.values()]
    for one in dict.fromkeys(class_name for _, class_name in used):
        for config in classes[one].config:
            yield ResultConfig("FromClass", tuple(name for name, own in used if own == one), config.opaque)


def class_name(claim: Claim, name: str) -> str:
    return next(a.class_name for request in claim.requests for a in request.alternatives if a.name == name)


def of_claim(claim: Claim, chosen: Mapping[str, str], features: Features) -> Iterator[ResultConfig]:
    for config in claim.config:
        named = [request for request, name in chosen.items() if {request, name} & set(config.requests)]
        times = len(named) if features.release.repeats_claim_config else min(1, len(named))
        for _ in range(times if config.requests else 1):
            yield ResultConfig("FromClaim", config.requests, config.opaque)


def node_selector(picks: Sequence[Given], node: Node) -> NodeSelector | None:
    expressions: list[Requirement] = []
    of_name: list[Requirement] = []
    for device, slice_ in (pick.published for pick in picks):
        reach = device.reach if slice_.reach.per_device else slice_.reach
        if reach.node_name or device.binds_to_node:
            return (Term(fields=(Requirement("metadata.name", "In", (node.name,)),)),)
        terms = reach.node_selector or ()
        if len(terms) > 1:
            raise InvalidPool("a node selector of several terms")
        for term in terms:
            add_new(term.expressions, expressions)
            add_new(term.fields, of_name)
    return (Term(tuple(expressions), tuple(of_name)),) if expressions or of_name else None


def add_new(requirements: Sequence[Requirement], known: list[Requirement]) -> None:
    for one in requirements:
        if not any(is_equal(one, other) for other in known):
            known.append(one)


def is_equal(one: Requirement, other: Requirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (other.key, other.operator, set(other.values))
