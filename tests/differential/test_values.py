"""Quantities and versions against the reference's: what is valid, how it compares, how it is written."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from cel.values.quantity import Quantity
from cel.values.semver import Semver
from tests.differential.peer import Json, Peer
from tests.generators.values import quantity_text, version_text

COUNT = 5000
MISPRINTED = 10**30  # nanos; from 1e21 on the reference prints some quantities wrongly


@pytest.fixture
def quantity_peer(peer_program: Path) -> Iterator[Peer]:
    with Peer(peer_program, "quantity") as peer:
        yield peer


@pytest.fixture
def semver_peer(peer_program: Path) -> Iterator[Peer]:
    with Peer(peer_program, "semver") as peer:
        yield peer


def pairs(text: Callable[[Random], str]) -> list[Json]:
    rng = Random(1)  # noqa: S311
    return [{"text": text(rng), "other": text(rng)} for _ in range(COUNT)]


def quantity_answer(request: Json) -> Json:
    try:
        first, second = Quantity.parse(request["text"]), Quantity.parse(request["other"])
    except ValueError:
        return {}
    total = first + second
    return {
        "compare": first.compare(second),
        "text": first.text if abs(first.nanos) < MISPRINTED else None,
        "sum": total.text if abs(total.nanos) < MISPRINTED else None,
    }


def semver_answer(request: Json) -> Json:
    try:
        first, second = Semver.parse(request["text"]), Semver.parse(request["other"])
    except ValueError:
        return {}
    return {"compare": (first > second) - (first < second), "text": str(first)}


def unlike(ours: Json, theirs: Json) -> bool:
    if not ours or "error" in theirs:
        return bool(ours) or "error" not in theirs
    return any(value is not None and value != theirs[key] for key, value in ours.items())


def test_quantities_are_read_compared_added_and_written_as_by_the_reference(quantity_peer: Peer) -> None:
    requests = pairs(quantity_text)
    answers = list(quantity_peer.ask_all(requests))
    assert COUNT * 0.7 < sum("error" not in answer for answer in answers) < COUNT * 0.98
    differing = [
        (r, quantity_answer(r), a) for r, a in zip(requests, answers, strict=True) if unlike(quantity_answer(r), a)
    ]
    assert differing == []


def test_versions_are_read_compared_and_written_as_by_the_reference(semver_peer: Peer) -> None:
    requests = pairs(version_text)
    answers = list(semver_peer.ask_all(requests))
    assert COUNT * 0.3 < sum("error" not in answer for answer in answers) < COUNT * 0.9
    differing = [
        (r, semver_answer(r), a) for r, a in zip(requests, answers, strict=True) if unlike(semver_answer(r), a)
    ]
    assert differing == []
