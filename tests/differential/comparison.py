"""Our answer to an expression on a device, and whether it is the reference's: outcome, phase of an error, costs."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import cel
from cel.device import device_from_json
from tests.differential.peer import Json, Peer
from tests.generators.expressions import Node
from tests.generators.shrinking import shrink_expression, shrink_json

Pair = tuple[Node, Json]

BATCH = 500
REPEAT = 200  # evaluations that show what the order of a map changes
SHOWN = 10

# docs/differences.md, "Estimated costs of macros with two variables"
TWO_VARIABLES = re.compile(r"\.(all|exists|exists_?one|transform\w+)\(\s*\w+\s*,\s*\w+\s*,", re.IGNORECASE)

# The environments of a release that its scheduler compiles in: ours, and the peer's name for it.
ENVIRONMENTS = {
    "1.36": (cel.V1_36, "stored-nolist"),
    "1.37": (cel.V1_37, "stored"),
    "1.38": (cel.V1_38, "stored"),
}


@dataclass
class Comparison:
    """Asks both sides. derived: for the value of a derived attribute instead of a selector's bool."""

    peer: Peer
    kubernetes: str = "1.37"
    derived: bool = False
    seen: Counter[str] = field(default_factory=Counter)

    def differing(self, pairs: Iterator[Pair]) -> list[Pair]:
        """The pairs on which the sides differ; `seen` counts the phases in which the reference ended."""
        result: list[Pair] = []
        while batch := list(islice(pairs, BATCH)):
            answers = self.peer.ask_all([self.question(str(e), d) for e, d in batch])
            for (expression, device), theirs in zip(batch, answers, strict=True):
                self.seen[phase(theirs) or "result"] += 1
                if self.difference(self.our_answer(str(expression), device), theirs):
                    result.append((expression, device))
        return [(e, d) for e, d in result if self.lasting_difference(str(e), d)]

    def question(self, expression: str, device: Json, repeat: int = 1) -> Json:
        """What the peer is asked."""
        environment = ENVIRONMENTS[self.kubernetes][1]
        asked: Json = {"expr": expression, "device": device, "environment": environment, "repeat": repeat}
        return {**asked, "derived": True} if self.derived else asked

    def our_answer(self, expression: str, device: Json) -> Json:
        """What our compiler and evaluator say, as the peer would put it."""
        compile_ = cel.compile_value if self.derived else cel.compile
        environment = ENVIRONMENTS[self.kubernetes][0]
        try:
            program = compile_(expression, environment)
        except cel.CompileError as error:
            return {"error": {"phase": "compile", "message": error.message}}
        outcome = program.run(device_from_json(device, on_demand=environment.reads_on_demand))
        answer: Json = {"max_cost": program.estimated_cost}
        if outcome.error is None:
            answer |= {"value": attribute(outcome.value)} if self.derived else {"result": outcome.value}
        else:
            answer["error"] = {"phase": outcome.error.phase, "message": outcome.error.message}
        return answer if phase(answer) == "device" else {**answer, "cost": outcome.cost}

    def difference(self, ours: Json, theirs: Json) -> str:
        """The first thing that differs, empty where nothing does."""
        if phase(theirs) == "panic":  # docs/differences.md, "Expressions that crash the reference"
            return "" if phase(ours) == "compile" else "outcome"
        if not theirs.get("unstable") and outcome(ours) != outcome(theirs):
            return "outcome"
        if self.kubernetes == "1.36":  # docs/differences.md, "Costs and bugs in the environment of 1.36"
            return ""
        if ours.get("max_cost") != theirs.get("max_cost"):
            return "max_cost"
        if "cost" not in ours or "cost" not in theirs:
            return "cost" if ours.get("cost") != theirs.get("cost") else ""
        return "" if theirs["cost"] <= ours["cost"] <= theirs.get("cost_hi", theirs["cost"]) else "cost"

    def lasting_difference(self, expression: str, device: Json) -> str:
        """What differs even when the reference has iterated its maps in every order."""
        ours = self.our_answer(expression, device)
        if not self.difference(ours, self.peer.ask(self.question(expression, device))):
            return ""
        found = self.difference(ours, self.peer.ask(self.question(expression, device, REPEAT)))
        return "" if found == "max_cost" and TWO_VARIABLES.search(expression) else found

    def shrunk(self, pair: Pair) -> str:
        """The pair and both answers, as small as they get while the same thing differs."""
        expression, device = pair
        kind = self.lasting_difference(str(expression), device)
        small = str(shrink_expression(expression, lambda node: self.lasting_difference(str(node), device) == kind))
        device = shrink_json(device, lambda d: self.lasting_difference(small, d) == kind, keep=["driver", "value"])
        theirs, ours = self.peer.ask(self.question(small, device, REPEAT)), self.our_answer(small, device)
        return f"{kind}: {small}\n    on {device}\n    expected {theirs}\n    got      {ours}"

    def report(self, differing: list[Pair]) -> str:
        """How many of how many differ, and some of them."""
        shown = "\n".join(dict.fromkeys(self.shrunk(pair) for pair in differing[:SHOWN]))
        return f"{len(differing)} of {self.seen.total()} pairs differ, among them\n{shown}"


def phase(answer: Json) -> str:
    """Where the answer is an error, the phase in which it arose."""
    return str(answer["error"]["phase"]) if "error" in answer else ""


def outcome(answer: Json) -> tuple[str, Any]:
    """What must be equal: phase of an error, or the value (Any: a bool or an attribute)."""
    return phase(answer), answer.get("value", answer.get("result"))


def attribute(value: object) -> Json:
    """The value of a derived attribute as the JSON that Go writes, which leaves out an empty list."""
    assert isinstance(value, cel.Attribute)
    plain = list(value.value) if isinstance(value.value, tuple) else value.value
    return {} if plain == [] else {value.kind: plain}
