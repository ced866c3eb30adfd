"""Why nodes cannot allocate claims, from the answers that a fleet keeps."""

from collections.abc import Iterator, Sequence

from allocator.cluster.usage import Usage
from allocator.fleet.answers import Answers
from allocator.fleet.fleet_nodes import FleetNode, FleetNodes
from allocator.fleet.unable import Unable, beside
from allocator.model import Claim
from allocator.outcome import Outcome
from allocator.search.rules import Mask, bits


def refusals_by_reason(
    answers: Answers, nodes: FleetNodes, claims: Sequence[Claim], allowed: Mask
) -> Iterator[tuple[Outcome, Mask]]:
    """The allowed nodes that cannot, by reason, ordered by the first node of each; without devices and holders."""
    for refused in _by_reason(answers, allowed):
        yield refusal_of(answers, nodes[_first(refused)], claims, None), refused


def refusals_by_node(
    answers: Answers, nodes: FleetNodes, claims: Sequence[Claim], allowed: Mask
) -> Iterator[tuple[Outcome, Mask]]:
    """The same, with each node that has contradictory pools alone."""
    for refused in _by_reason(answers, allowed):
        if not _unable(answers, nodes[_first(refused)]).is_own:
            yield refusal_of(answers, nodes[_first(refused)], claims, None), refused
            continue
        for number in bits(refused):
            yield refusal_of(answers, nodes[number], claims, None), 1 << number


def refusal_of(answers: Answers, node: FleetNode, claims: Sequence[Claim], usage: Usage | None) -> Outcome:
    """The refusal of one node. usage: names devices and their holders; None leaves them out."""
    unable = _unable(answers, node)
    refusal = unable.refusal(claims, node.devices() if usage is not None else (), usage)
    if not unable.is_own:
        return refusal
    return beside(refusal, tuple((pool.id, pool.contradiction) for pool in node.pools or () if pool.contradiction))


def _by_reason(answers: Answers, allowed: Mask) -> list[Mask]:
    masks = [refused for mask in answers.by_text.values() if (refused := mask & allowed)]
    return sorted(masks, key=lambda mask: mask & -mask)


def _first(nodes: Mask) -> int:
    return (nodes & -nodes).bit_length() - 1


def _unable(answers: Answers, node: FleetNode) -> Unable:
    assert node.group is not None, f"node {node.node.name} is in no group"
    answer = answers.of_group[node.group]
    assert isinstance(answer, Unable), f"node {node.node.name} refuses nothing: {answer}"
    return answer
