"""Bodies of calls as kube-scheduler sent them, broken: the extender answers or says what is wrong, and gives nothing.

The calls reach the verbs themselves; what stands around them (sizes, limits, TLS) has tests of its own.
"""

import asyncio
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from scheduler.runtime.server import Malformed
from tests.fuzz.mutation import as_text, changed_json
from tests.fuzz.target import FuzzTarget
from tests.unit.scheduler.extender.clusters import OURS
from tests.unit.scheduler.extender.test_verbs import World

GOLDEN = Path(__file__).resolve().parents[1] / "integration" / "extender" / "golden"
VERBS = ("filter", "prioritize", "preempt", "bind")


@cache
def bodies() -> dict[str, list[Any]]:
    """The bodies of each verb, of pods of ours in the cluster of `World`."""
    return {verb: [_ours(path.read_text()) for path in sorted(GOLDEN.glob(f"{verb}*.json"))] for verb in VERBS}


def _ours(text: str) -> Any:
    return json.loads(text.replace('"default-scheduler"', f'"{OURS}"').replace('"golden"', '"default"'))


def broken(rng: Random) -> str:
    """A verb, and a body for it."""
    verb = rng.choice(VERBS)
    return f"{verb} {as_text(rng, changed_json(rng, rng.choice(bodies()[verb])))}"


def is_answered(text: str) -> bool:
    """Whether it could be read; what is answered is JSON."""
    name, _, body = text.partition(" ")
    try:
        found = getattr(World().verbs, name)(body.encode(errors="surrogatepass"))
        answer = found if isinstance(found, bytes) else asyncio.run(found)
    except Malformed as problem:
        return not str(problem)
    return json.loads(answer) is not None


TARGET = FuzzTarget(broken, is_answered, longest_s=10)
