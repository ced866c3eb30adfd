"""An explanation as text: the result in one line, the details of one node, then the other nodes by reason."""

from collections.abc import Iterator, Mapping, Sequence

import click

from allocator.explain.node_explanation import NodeExplanation, PassedOver
from allocator.explain.offer import Funnel
from allocator.explain.selector_operands import blaming
from allocator.explain.sentences import conflict_text, constraint_offer_text, near_miss, remedy_texts
from allocator.explain.text import OPERATOR, devices_text, node_text, refusal_text, summary
from allocator.model import Claim, DeviceID
from allocator.outcome import Allocated, AllocationError, Exhausted
from allocator.policies.contract import FIRST_FIT
from scheduler.decision.node_answers import Answer, same_answers
from scheduler.decision.plugin_remedies import PluginRefusal
from scheduler.offline.pod_explanation import Explanation, Verdict
from scheduler.output.node_groups import answer_text, by_reason
from scheduler.terminal_text import printable

MOST_NAMED = 4
"""Devices or nodes that a line names; others are counted."""

_VERDICTS: Mapping[Verdict, str] = {"Fits": "fits", "DoesNotFit": "does not fit", "NotKnown": "may or may not fit"}


def text_of(explanation: Explanation) -> str:
    """The whole explanation; the verdict is green or red on a terminal."""
    verdict = click.style(verdict_text(explanation), fg="green" if explanation.verdict == "Fits" else "red")
    return "\n".join([_first_line(explanation, verdict), *map(printable, detail_lines(explanation))])


def first_line(explanation: Explanation) -> str:
    """The verdict and its reason."""
    return _first_line(explanation, verdict_text(explanation))


def _first_line(explanation: Explanation, verdict: str) -> str:
    return f"{subject_of(explanation)} {verdict}: {printable(reason_of(explanation))}"


def verdict_text(explanation: Explanation) -> str:
    """The verdict in words."""
    return _VERDICTS[explanation.verdict]


def detail_lines(explanation: Explanation) -> Iterator[str]:
    """The lines after the first one; each is indented by what it belongs to."""
    if explanation.kept:
        yield f"  {explanation.kept}"
    if hidden := explanation.hidden:
        yield f"  kube-scheduler gives it up at node {hidden.node}: {hidden.reason}"
    yield from (f"  {line}" for claim in explanation.claims for line in _allocated(claim))
    if explanation.answers:
        yield from ("", *_node_lines(explanation))
    if others := _by_plugin(explanation):
        yield from ("", "other nodes", *(f"  {_counted(names)}: {reason}" for reason, names in by_reason(others)))


def subject_of(explanation: Explanation) -> str:
    """What is explained, such as `pod ml/train-0`."""
    if explanation.pod is not None:
        return f"pod {explanation.pod}"
    return f"claim {explanation.claims[0]}"


def reason_of(explanation: Explanation) -> str:
    """Why, in one line."""
    answers, node = explanation.answers or {}, explanation.node
    if explanation.summary:
        return explanation.summary
    if explanation.is_asked_for:
        can = sum(isinstance(answer, Allocated) for answer in answers.values())
        here = f"node {node} can" if explanation.verdict == "Fits" else f"node {node}: {answer_text(answers[node])}"
        return f"{here} ({can} of {len(answers)} nodes can)"
    if explanation.verdict == "Fits":
        able = [name for name, answer in answers.items() if isinstance(answer, Allocated)]
        is_first_fit = explanation.policy == FIRST_FIT.name
        best = "the best by score" if is_first_fit else f"the best by policy {explanation.policy}"
        return f"node {node}, {f'{best} of {len(able)}' if len(able) > 1 else 'the only one'} that can"
    answer = answers[node]
    if isinstance(answer, AllocationError):
        return str(answer).partition("\n")[0]
    groups = [(names[0], one, len(names)) for one, names in same_answers(answers)]
    refused = [(name, one, number) for name, one, number in groups if not isinstance(one, AllocationError)]
    return summary(refused, len(answers), explanation.updating)


def other_answers(explanation: Explanation) -> dict[str, Answer]:
    """What the other nodes say."""
    return {name: answer for name, answer in (explanation.answers or {}).items() if name != explanation.node}


def _by_plugin(explanation: Explanation) -> dict[str, Answer]:
    """The same, with the plugin that refuses each node."""
    answers = other_answers(explanation)
    texts: dict[tuple[str, str], str] = {}
    return {name: _with_plugin(answer, explanation.plugins.get(name, ""), texts) for name, answer in answers.items()}


def _with_plugin(answer: Answer, plugin: str, texts: dict[tuple[str, str], str]) -> Answer:
    """texts: those that were made so far, which nodes share."""
    if not plugin or not isinstance(answer, str):
        return answer
    return texts.setdefault((plugin, answer), f"{plugin}: {answer}")


def _node_lines(explanation: Explanation) -> Iterator[str]:
    node, on_node = explanation.node, explanation.on_node
    answer = (explanation.answers or {})[node]
    yield f"node {node}, {_role(explanation, answer)}"
    if isinstance(answer, str):
        yield from (f"  {line}" for line in _plugin_lines(explanation.refusal, answer))
    if on_node is None:
        return
    if isinstance(answer, str):
        yield f"  its devices: {'would fit' if isinstance(on_node.answer, Allocated) else 'would not fit either'}"
    yield from (f"  {line}" for line in _device_lines(on_node, node))


def _plugin_lines(refusal: PluginRefusal | None, answer: str) -> Iterator[str]:
    if refusal is None:
        yield answer
        return
    yield f"{refusal.plugin}: {answer}"
    if refusal.remedies:
        yield "  would pass if"
        yield from (f"    {text}" for text in refusal.remedies)


def _role(explanation: Explanation, answer: Answer) -> str:
    if explanation.is_asked_for:
        return "given by --node"
    if isinstance(answer, AllocationError):
        return "where the attempt ends"
    return "selected" if isinstance(answer, Allocated) else "the nearest"


def _device_lines(on_node: NodeExplanation, node: str) -> Iterator[str]:
    for funnel in on_node.offer.funnels:
        yield from _funnel_lines(funnel, _taken(on_node, funnel))
    yield from (f"claim {offered.claim}, {constraint_offer_text(offered)}" for offered in on_node.offer.constraints)
    yield from (f"pool {pool.driver}/{pool.pool} {what}" for pool, what in on_node.offer.unusable)
    for one in on_node.passed_over:
        yield f"claim {one.claim}, {one.request} was passed over: {passed_over_text(one)}"
    if isinstance(on_node.answer, AllocationError):
        yield from str(on_node.answer).splitlines()
    elif isinstance(on_node.answer, Exhausted):
        yield node_text(on_node.answer, reader=OPERATOR)
    if on_node.conflict:
        yield conflict_text(on_node.conflict, node)
    if on_node.remedies or not isinstance(on_node.answer, Allocated | AllocationError):
        yield from _remedy_lines(on_node)


def _funnel_lines(funnel: Funnel, taken: Sequence[DeviceID]) -> Iterator[str]:
    wanted = f"all of {devices_text(funnel.wanted)}" if funnel.mode == "All" else devices_text(funnel.wanted)
    yield f"claim {funnel.claim}, request {funnel.request}: needs {wanted}, the node has {funnel.total}"
    for refusal in funnel.refusals:
        yield f"  {refusal_text(refusal, reader=OPERATOR)}"
        yield from (f"    {line}" for line in blaming(funnel.operands.get(refusal.reason, ())))
    unjudged = f"; a selector fails on {len(funnel.unjudged)} of them" if funnel.unjudged else ""
    yield f"  {len(funnel.left)} left{_named(funnel.left)}{unjudged}"
    if taken:
        yield f"  takes {', '.join(map(str, taken))}"
    elif reported := near_miss(funnel):
        yield f"  {reported}"


def _taken(on_node: NodeExplanation, funnel: Funnel) -> list[DeviceID]:
    if not isinstance(on_node.answer, Allocated):
        return []
    own = zip(on_node.claims, on_node.answer.allocations, strict=True)
    results = [one for claim, allocation in own if claim == funnel.claim for one in allocation.results]
    return [one.id for one in results if one.request == funnel.request]


def passed_over_text(one: PassedOver) -> str:
    """Why an alternative was not taken."""
    if isinstance(one.answer, Allocated):
        return "it is available only if an earlier request took another alternative"
    return answer_text(one.answer)


def _remedy_lines(on_node: NodeExplanation) -> Iterator[str]:
    has_many = len({funnel.claim for funnel in on_node.offer.funnels}) > 1
    if on_node.remedies:
        yield "it is known to fit if" if isinstance(on_node.answer, Exhausted) else "would fit if"
        yield from (f"  {text}" for text in remedy_texts(on_node.remedies, has_many_claims=has_many))
    else:
        yield "no single change that makes it fit was found"
    if not on_node.is_whole:
        yield "some changes could not be verified within the budget"


def _allocated(claim: Claim) -> Iterator[str]:
    if claim.allocation is not None:
        devices = ", ".join(f"{one.request}: {one.id}" for one in claim.allocation.results)
        yield f"claim {claim} is allocated: {devices or 'no device'}"


def _named(devices: Sequence[DeviceID]) -> str:
    if not devices:
        return ""
    rest = f" and {len(devices) - MOST_NAMED} more" if len(devices) > MOST_NAMED else ""
    return f": {', '.join(map(str, devices[:MOST_NAMED]))}{rest}"


def _counted(names: Sequence[str]) -> str:
    number = f"{len(names)} node{'' if len(names) == 1 else 's'}"
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{number} ({', '.join(names[:MOST_NAMED])}{rest})"
