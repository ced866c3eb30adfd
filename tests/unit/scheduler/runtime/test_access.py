"""Who is let in is what the API server says, for ten seconds at most."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from allocator.api.versions import Json
from scheduler.client.errors import Unanswered
from scheduler.runtime.health import (
    MOST_ASKED,
    MOST_REMEMBERED,
    OF_ALL_AT_ONCE,
    OF_ALL_EVERY_S,
    OF_SOURCE_AT_ONCE,
    REMEMBERED_S,
    Access,
    is_open,
)

ALICE = {"username": "alice", "uid": "1", "groups": ["a", "b"], "extra": {"k": ["v"]}}


class Reviews:
    """An API server that knows tokens and rights. known: users by token; allowed: pairs of user and path."""

    def __init__(self) -> None:
        self.known: dict[str, Mapping[str, Any]] = {"t": ALICE}
        self.allowed = {("alice", "/metrics")}
        self.is_up = True
        self.asked: list[Json] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def request(self, method: str, path: str, *, body: object = None, **_: object) -> Json:
        assert isinstance(body, dict)
        self.asked.append(body)
        await self.may_answer.wait()
        if not self.is_up:
            raise Unanswered(f"{method} {path}", "no answer in time", is_ambiguous=True)
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            user = self.known.get(spec["token"])
            return {"status": {"authenticated": True, "user": user} if user else {"error": "unknown"}}
        wanted = spec["nonResourceAttributes"]
        is_allowed = wanted["verb"] == "get" and (spec["user"], wanted["path"]) in self.allowed
        return {"status": {"allowed": is_allowed}}


class Door:
    """Who comes, and when."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.reviews = Reviews()
        self.access = Access(self.reviews, lambda: self.now_s)

    async def status(
        self, authorization: str = "Bearer t", verb: str = "get", path: str = "/metrics", source: str = "10.0.0.1"
    ) -> int:
        return (await self.access.answer(authorization, verb, path, source)).status

    async def invented(self, number: int, source: str = "10.0.0.9") -> list[int]:
        """What so many tokens get that somebody has made up."""
        first = len(self.reviews.asked)
        return [await self.status(f"Bearer {first}-{one}", source=source) for one in range(number)]


@pytest.mark.parametrize(
    ("authorization", "verb", "path", "status"),
    [
        ("Bearer t", "get", "/metrics", 200),
        ("bearer  t ", "get", "/metrics", 200),
        ("", "get", "/metrics", 401),
        ("Bearer ", "get", "/metrics", 401),
        ("Basic t", "get", "/metrics", 401),
        ("Bearer stranger", "get", "/metrics", 401),
        ("Bearer \udcff\udcfe", "get", "/metrics", 401),
        ("Bearer t\u00e9", "get", "/metrics", 401),
        ("Bearer t", "get", "/debug/queue", 403),
        ("Bearer t", "head", "/metrics", 403),
    ],
)
def test_token_and_right_are_both_needed(authorization: str, verb: str, path: str, status: int) -> None:
    async def found() -> int:
        return await Door().status(authorization, verb, path)

    assert asyncio.run(found()) == status


def test_api_server_is_shown_all_that_it_said_of_the_user() -> None:
    async def asked() -> list[Json]:
        door = Door()
        await door.status()
        return door.reviews.asked

    token, access = asyncio.run(asked())
    assert (token["apiVersion"], token["kind"]) == ("authentication.k8s.io/v1", "TokenReview")
    assert (access["apiVersion"], access["kind"]) == ("authorization.k8s.io/v1", "SubjectAccessReview")
    attributes = {"verb": "get", "path": "/metrics"}
    user = {"user": "alice", "uid": "1", "groups": ["a", "b"], "extra": {"k": ["v"]}}
    assert access["spec"] == {**user, "nonResourceAttributes": attributes}


def test_who_may_not_is_named_with_what_he_may_not() -> None:
    async def said() -> str:
        return (await Door().access.answer("Bearer t", "get", "/debug/queue")).reason

    assert asyncio.run(said()) == 'user "alice" cannot get path "/debug/queue"'


def test_answer_counts_for_ten_seconds_whichever_it_is() -> None:
    async def statuses() -> list[int]:
        door = Door()
        before = [await door.status(), await door.status(path="/debug/queue"), await door.status("Bearer u")]
        door.reviews.allowed = {("alice", "/debug/queue")}
        door.reviews.known = {"t": ALICE, "u": {"username": "alice"}}
        door.now_s = REMEMBERED_S - 0.1
        during = [await door.status(), await door.status(path="/debug/queue"), await door.status("Bearer u")]
        door.now_s = REMEMBERED_S
        after = [await door.status(), await door.status(path="/debug/queue"), await door.status("Bearer u")]
        return [*before, *during, *after]

    assert asyncio.run(statuses()) == [200, 403, 401, 200, 403, 401, 403, 200, 403]


def test_api_server_that_is_away_lets_in_only_whom_it_let_in_just_before_and_is_asked_again_at_once() -> None:
    async def statuses() -> list[int]:
        door = Door()
        found = [await door.status()]
        door.reviews.is_up = False
        found += [await door.status(), await door.status(path="/debug/queue")]
        door.now_s = REMEMBERED_S
        found.append(await door.status())
        door.reviews.is_up = True
        return [*found, await door.status()]

    assert asyncio.run(statuses()) == [200, 200, 503, 503, 200]


def test_those_who_want_to_know_the_same_are_asked_about_once_and_too_many_are_put_off() -> None:
    async def found() -> tuple[list[int], int, list[int]]:
        door = Door()
        door.reviews.may_answer.clear()
        same = [asyncio.create_task(door.status()) for _ in range(5)]
        asks = [door.status(f"Bearer {number}", source=str(number)) for number in range(MOST_ASKED)]
        others = [asyncio.create_task(one) for one in asks]
        for _ in range(3):
            await asyncio.sleep(0)
        asked = len(door.reviews.asked)
        door.reviews.may_answer.set()
        return await asyncio.gather(*same), asked, await asyncio.gather(*others)

    same, asked, others = asyncio.run(found())
    assert same == [200] * 5
    assert asked == MOST_ASKED
    assert others == [401] * (MOST_ASKED - 1) + [503]


def test_reader_that_goes_leaves_the_question_to_the_others() -> None:
    async def found() -> int:
        door = Door()
        door.reviews.may_answer.clear()
        gone, other = asyncio.create_task(door.status()), asyncio.create_task(door.status())
        await asyncio.sleep(0)
        gone.cancel()
        door.reviews.may_answer.set()
        return await other

    assert asyncio.run(found()) == 200


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    async def remembered() -> list[int]:
        door = Door()
        for number in range(MOST_REMEMBERED + 10):
            door.now_s += OF_ALL_EVERY_S
            door.reviews.known[str(number)] = ALICE if number % 2 else {"username": "bob"}
            await door.status(f"Bearer {number}", source=str(number))
            await door.status(f"Bearer {number}", path=f"/{number}", source=str(number))
        access = door.access
        kept = (access._answers, access._refusals, access._let_in, access._let_in_from, access._of_source)
        return [len(one) for one in kept]

    half = MOST_REMEMBERED // 2 + 5
    assert asyncio.run(remembered()) == [half, MOST_REMEMBERED, half, half, MOST_REMEMBERED]


def test_invented_tokens_are_reviewed_at_a_rate() -> None:
    async def found() -> tuple[list[int], list[int], int]:
        door = Door()
        at_once = await door.invented(100)
        door.now_s += 2.0
        later = await door.invented(100)
        return at_once, later, len(door.reviews.asked)

    at_once, later, asked = asyncio.run(found())
    assert (at_once.count(401), at_once.count(503)) == (OF_SOURCE_AT_ONCE, 100 - OF_SOURCE_AT_ONCE)
    assert (later.count(401), later.count(503)) == (2, 98)
    assert asked == OF_SOURCE_AT_ONCE + 2


def test_invented_tokens_of_many_sources_are_reviewed_at_a_rate_as_well() -> None:
    async def found() -> int:
        door = Door()
        for number in range(100):
            await door.invented(10, source=str(number))
        return len(door.reviews.asked)

    assert asyncio.run(found()) == 2 * OF_ALL_AT_ONCE, "half of them as the first ones of their sources"


@pytest.mark.parametrize("source", ["10.0.0.1", "10.0.0.2"], ids=["of a token that was let in", "that is new"])
def test_new_token_is_reviewed_at_once_however_many_sources_invent_some_all_the_time(source: str) -> None:
    """A scraper whose token has expired, and one that has just started."""

    async def found() -> list[int]:
        door = Door()
        statuses = [await door.status()]
        for number in range(100):
            door.now_s += 1.0
            for attacker in range(40):
                await door.invented(3, source=f"attacker-{attacker}")
            if number % 30 == 29:
                door.reviews.known = {f"new-{number}": ALICE}
                statuses.append(await door.status(f"Bearer new-{number}", source=source))
                door.access._let_in_from.pop("10.0.0.2", None)
                door.access._of_source.pop("10.0.0.2", None)
        return statuses

    assert asyncio.run(found()) == [200] * 4


def test_token_of_another_source_is_reviewed_beside_invented_ones() -> None:
    async def found() -> int:
        door = Door()
        await door.invented(1000)
        return await door.status()

    assert asyncio.run(found()) == 200


def test_token_that_was_let_in_is_let_in_whoever_invents_how_many() -> None:
    async def found() -> list[int]:
        door = Door()
        statuses = [await door.status()]
        for _ in range(10):
            door.now_s += REMEMBERED_S
            for number in range(100):
                await door.invented(3, source=str(number))
            await door.invented(100, source="10.0.0.1")
            statuses.append(await door.status())
        return statuses

    assert asyncio.run(found()) == [200] * 11


def test_token_that_has_expired_is_one_of_those_that_nobody_knows() -> None:
    async def found() -> list[int]:
        door = Door()
        statuses = [await door.status()]
        door.reviews.known = {}
        door.now_s += REMEMBERED_S
        statuses.append(await door.status())
        door.now_s += REMEMBERED_S
        await door.invented(100, source="10.0.0.1")
        return [*statuses, await door.status()]

    assert asyncio.run(found()) == [200, 401, 503]


@pytest.mark.parametrize(
    ("path", "is_so"),
    [("/livez", True), ("/livez/", False), ("/debug/queue", True), ("/debug/", True), ("/debug", False), ("/", False)],
)
def test_path_is_open_by_its_name_or_by_its_beginning(path: str, *, is_so: bool) -> None:
    assert is_open(path, ["/livez", "/debug/*"]) is is_so
