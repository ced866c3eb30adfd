"""Cases on which we and the reference differ, as small as they get."""

from collections.abc import Callable, Collection, Iterable

import orjson

from scheduler.cli.recorded import InvalidCase
from tests.differential.peer import Json, Peer
from tests.generators.shrinking import shrink_json

SHOWN = 5


def shrunk(
    peer: Peer,
    differing: Iterable[Json],
    difference: Callable[[Json, Json], str],
    manner: Callable[[str], str],
    essential: Collection[str],
) -> str:
    """The first few cases, each while it differs in the same way, with what differs in it.

    difference: between our answer and the peer's, empty where there is none. manner: of a difference, without names.
    """
    shown = list(differing)[:SHOWN]
    return "\n".join(dict.fromkeys(_shrunk(peer, case, difference, manner, essential) for case in shown))


def _shrunk(
    peer: Peer,
    case: Json,
    difference: Callable[[Json, Json], str],
    manner: Callable[[str], str],
    essential: Collection[str],
) -> str:
    expected = manner(difference(case, peer.ask(case)))

    def differs_likewise(candidate: Json) -> bool:
        answer = peer.ask(candidate)
        try:
            return "fault" not in answer and manner(difference(candidate, answer)) == expected
        except InvalidCase:
            return False

    small = shrink_json(case, differs_likewise, essential)
    return f"{difference(small, peer.ask(small))}\n    {orjson.dumps(small).decode()}"
