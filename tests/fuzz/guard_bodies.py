"""AdmissionReviews, broken: the guard answers or says what is wrong, and lets no device be given twice.

It is asked about one claim after the other; whatever it has let before, two claims that hold one device are never both
allowed.
"""

import asyncio
import json
import re
from itertools import count
from random import Random
from typing import Any

from scheduler.guard.ledger import Ledger
from scheduler.guard.reviewer import WAIT_S, GuardMetrics, GuardReading, Reviewer
from scheduler.runtime.server import Malformed
from tests.builders import DRIVER, POOL
from tests.fuzz.mutation import as_text, changed_json
from tests.fuzz.target import FuzzTarget
from tests.unit.scheduler.guard.test_ledger import a_cluster

CLAIMS = ("one", "two", "three")


def broken(rng: Random) -> str:
    """Questions, one a line: of each claim, all for the one device that there is."""
    return "\n".join(as_text(rng, _question(rng, name)).replace("\n", " ") for name in CLAIMS)


def _question(rng: Random, name: str) -> Any:
    result = {"request": "r", "driver": DRIVER, "pool": POOL, "device": "a"}
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
    }
    new = {**claim, "spec": {"devices": {"requests": [{"name": "r"}]}}, "status": status}
    request = {
        "uid": "q",
        "operation": "UPDATE",
        "subResource": "status",
        "dryRun": False,
        "object": new,
        "oldObject": claim,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return changed_json(rng, review) if rng.random() < 0.8 else review


def a_reviewer() -> Reviewer:
    """Of a guard that leads, of a pool with the device `a`. Each look at its clock takes as long as it ever waits."""
    metrics, seconds = GuardMetrics(lambda: GuardReading([], 0, {})), count()
    clock = lambda: next(seconds) * WAIT_S  # noqa: E731
    found = Reviewer(Ledger(a_cluster("a")), metrics, is_leading=lambda: True, monotonic=clock, lasts_s=1e9)
    found.waits_for = ""
    return found


async def _answer(reviewer: Reviewer, body: bytes) -> bytes:
    found = reviewer.answer(body)
    return found if isinstance(found, bytes) else await found


def is_allowed(text: str) -> bool:
    """Whether any of them was."""
    reviewer = a_reviewer()
    users: list[str] = []
    for line in text.split("\n"):
        try:
            answer = json.loads(asyncio.run(_answer(reviewer, line.encode(errors="surrogatepass"))))
        except Malformed:
            continue
        response = answer["response"]
        if not response["allowed"]:
            assert response["status"]["message"]
        elif _takes(line):
            users.append(line)
    assert len(users) <= 1, "the device was let twice"
    return bool(users)


def _takes(line: str) -> bool:
    """Whether the question, which was allowed, is about a claim that has the device from then on."""
    try:
        asked = json.loads(re.sub(r"\[{99,}\]{99,}", "null", line))["request"]  # deeper than this library reads
    except ValueError:
        return False  # no API server has written that
    if asked.get("dryRun"):
        return False
    return _has_device(asked["object"]) and not _has_device(asked["oldObject"])


def _has_device(claim: Any) -> bool:
    """As an API server would read it, which takes no object that is not of the right shape."""
    status = claim.get("status")
    results = (((status or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
    return any(
        (one.get("driver"), one.get("pool"), one.get("device")) == (DRIVER, POOL, "a") and not one.get("adminAccess")
        for one in results
    )


TARGET = FuzzTarget(broken, is_allowed, longest_s=20)
