"""Picks to `status.allocation`: devices, configuration and node selector of one claim.

The order of every list is part of the contract: drivers read configurations in it.
Source: resource.k8s.io/v1 AllocationResult; KEP-4381, KEP-4816 (names of subrequests).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from allocator.cluster.node_affinity import NAME_FIELD
from allocator.cluster.node_view import NodeView
from allocator.features import concerned
from allocator.features.contract import NodeAttempt
from allocator.gates import Release
from allocator.memo import Topic
from allocator.model import (
    Allocation,
    Alternative,
    Claim,
    DeviceClass,
    DeviceResult,
    NodeSelector,
    Reach,
    Requirement,
    ResultConfig,
    Term,
)
from allocator.outcome import InvalidPool
from allocator.search.rules import Pick

_ONLY: Final[Topic[NodeSelector]] = Topic("selector of the node")


def allocation_of(
    claim: Claim, picks: Sequence[Pick], attempt: NodeAttempt, classes: Mapping[str, DeviceClass]
) -> Allocation:
    """The allocation for the picks of a claim, in their order.

    Raises InvalidPool if a device can only be described by several node selector terms.
    """
    config: tuple[ResultConfig, ...] = ()
    if claim.config or any(classes[a.class_name].config for request in claim.requests for a in request.alternatives):
        config = tuple(_config(claim, _chosen(claim, picks), classes, attempt.features.release))
    return Allocation(
        tuple([_result(claim, pick, attempt) for pick in picks]), config, _node_selector(picks, attempt.view)
    )


def _chosen(claim: Claim, picks: Sequence[Pick]) -> dict[str, str]:
    """Request name to the name of its chosen alternative (`request` or `request/subrequest`), in request order."""
    picked = {pick.candidates.alternative.name for pick in picks}
    return {
        request.name: next(a.name for a in request.alternatives if a.name in picked or _needs_none(a))
        for request in claim.requests
    }


def _needs_none(alternative: Alternative) -> bool:
    """True for a count below one, which only unchecked claims have."""
    return alternative.mode == "ExactCount" and alternative.count < 1


def _result(claim: Claim, pick: Pick, attempt: NodeAttempt) -> DeviceResult:
    device = attempt.view.devices[pick.device]
    alternative = pick.candidates.alternative
    result = DeviceResult(
        alternative.name, device.driver, device.pool, device.name, tolerations=alternative.tolerations
    )
    for feature in concerned(attempt.view, "finish"):
        result = feature.finish(attempt, claim, pick, result)
    return result


def _config(
    claim: Claim, chosen: Mapping[str, str], classes: Mapping[str, DeviceClass], release: Release
) -> Iterator[ResultConfig]:
    for config in (*_class_config(claim, chosen, classes), *_claim_config(claim, chosen, release)):
        covers_all = all(_names(config.requests, request, name) for request, name in chosen.items())
        if release.clears_covering_config and covers_all:
            yield ResultConfig(config.source, (), config.opaque)
        else:
            yield config


def _class_config(
    claim: Claim, chosen: Mapping[str, str], classes: Mapping[str, DeviceClass]
) -> Iterator[ResultConfig]:
    """Each class once, where it is first used, with the names of all requests that use it."""
    users: dict[str, list[str]] = {}
    for request in claim.requests:
        name = chosen[request.name]
        alternative = next(a for a in request.alternatives if a.name == name)
        users.setdefault(alternative.class_name, []).append(name)
    for class_name, names in users.items():
        for config in classes[class_name].config:
            yield ResultConfig("FromClass", tuple(names), config.opaque)


def _claim_config(claim: Claim, chosen: Mapping[str, str], release: Release) -> Iterator[ResultConfig]:
    for config in claim.config:
        hits = sum(_names(config.requests, request, name) for request, name in chosen.items())
        times = 1 if not config.requests else hits if release.repeats_claim_config else min(hits, 1)
        for _ in range(times):
            yield ResultConfig("FromClaim", config.requests, config.opaque)


def _names(requests: Sequence[str], request: str, chosen: str) -> bool:
    """True if the list names the request, or the alternative of it that was chosen."""
    return request in requests or chosen in requests


def _node_selector(picks: Iterable[Pick], view: NodeView) -> NodeSelector | None:
    expressions: dict[tuple[str, str, frozenset[str]], Requirement] = {}
    fields: dict[tuple[str, str, frozenset[str]], Requirement] = {}
    for pick in picks:
        device = view.devices[pick.device]
        slice_ = view.segment(pick.device).slice
        reach = device.reach if slice_.reach.per_device else slice_.reach
        if reach.node_name or device.binds_to_node:
            return _only(view)
        for term in _single_term(reach, slice_.name):
            _add(expressions, term.expressions)
            _add(fields, term.fields)
    if not expressions and not fields:
        return None
    return (Term(tuple(expressions.values()), tuple(fields.values())),)


def _only(view: NodeView) -> NodeSelector:
    """The selector of the view's node alone."""
    name = view.node.name if view.node else ""
    return view.memo.remember(_ONLY, lambda: (Term(fields=(Requirement(NAME_FIELD, "In", (name,)),)),))


def _single_term(reach: Reach, slice_name: str) -> NodeSelector:
    terms = reach.node_selector or ()
    if len(terms) > 1:
        raise InvalidPool(f"slice {slice_name}: a node selector of {len(terms)} terms is not supported, one is")
    return terms


def _add(known: dict[tuple[str, str, frozenset[str]], Requirement], requirements: Iterable[Requirement]) -> None:
    for requirement in requirements:
        known.setdefault((requirement.key, requirement.operator, frozenset(requirement.values)), requirement)
