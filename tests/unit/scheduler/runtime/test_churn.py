"""Access that was asked for many tokens, from many sources, keeps nothing of those that asked once."""

import asyncio
from collections import Counter
from itertools import count
from typing import Any, cast

import pytest

from scheduler.client.connection import Api
from scheduler.runtime import health
from scheduler.runtime.health import Access
from tests.unit.scheduler.churn import AT_ONCE, FIRST, ROUNDS, assert_nothing_has_grown, entries

MOST = 2 * AT_ONCE
"""Of what is bounded in number: less than comes and goes before it is counted."""


class Reviews:
    """An API server that knows the tokens whose names begin with good."""

    async def request(self, _method: str, path: str, *, body: Any, **_: object) -> dict[str, Any]:
        if path.endswith("tokenreviews"):
            return {"status": {"authenticated": body["spec"]["token"].startswith("good"), "user": {"username": "u"}}}
        return {"status": {"allowed": True}}


def test_nothing_is_kept_of_tokens_and_sources_that_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s, numbers = 0.0, count()

    async def churn() -> tuple[Counter[str], Counter[str]]:
        nonlocal passed_s
        asked = Access(cast(Api, Reviews()), lambda: passed_s)
        found = []
        for number in (FIRST, ROUNDS):
            for _ in range(number * AT_ONCE):
                one, passed_s = next(numbers), passed_s + 1
                for token, status in ((f"good-{one}", 200), (f"bad-{one}", 401)):
                    assert (await asked.answer(f"Bearer {token}", "get", "/metrics", f"source-{one}")).status == status
            found.append(entries(asked))
        return found[0], found[1]

    monkeypatch.setattr(health, "MOST_REMEMBERED", MOST)
    assert_nothing_has_grown(*asyncio.run(churn()))
