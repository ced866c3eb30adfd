"""The cases of the language's features, and what is told of errors, against the reference: outcomes and costs."""

from collections.abc import Iterable

from tests.conformance.language_cases import DEVICE, cases
from tests.differential.comparison import Comparison
from tests.differential.peer import Json, Peer


def differing(peer: Peer, expressions: Iterable[str]) -> dict[str, tuple[str, Json]]:
    """The expressions on which the sides differ: in what, and the reference's answer."""
    comparison, every = Comparison(peer), list(expressions)
    answers = list(peer.ask_all([comparison.question(expression, DEVICE) for expression in every]))
    return {
        expression: (found, answer)
        for expression, answer in zip(every, answers, strict=True)
        if comparison.difference(comparison.our_answer(expression, DEVICE), answer)
        and (found := comparison.lasting_difference(expression, DEVICE))
    }


def test_features_of_the_language_are_those_of_the_reference(cel_peer: Peer) -> None:
    assert differing(cel_peer, [case.expression for case in cases()]) == {}
