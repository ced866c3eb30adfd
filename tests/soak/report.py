"""What is printed and written at the end."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.soak import figures
from tests.soak.checker import HELD_TWICE, WITHOUT_DEVICES, Checker, Wrong
from tests.soak.figures import Rule, Waits
from tests.soak.good import Good
from tests.soak.hostile import Hostile
from tests.soak.plan import Plan
from tests.soak.processes import Processes

_SHOWN = 20
_WIDTH = 400


@dataclass(frozen=True, slots=True)
class Report:
    """rules: the verdict. figures: the rest, by their names."""

    plan: Plan
    rules: Sequence[Rule]
    figures: dict[str, object]
    wrongs: Sequence[Wrong]
    ends: Sequence[str]

    @property
    def holds(self) -> bool:
        """The verdict."""
        return all(rule.holds for rule in self.rules)

    def text(self) -> str:
        """A table of figures, then the rules and what broke them."""
        width = max(map(len, self.figures))
        lines = [f"{name:{width}}  {value}" for name, value in self.figures.items()]
        lines += ["", *(f"{'ok   ' if rule.holds else 'WRONG'}  {rule.name}: {rule.seen}" for rule in self.rules)]
        lines += [f"       version {one.version}: {one.rule}: {one.text}" for one in self.wrongs[:_SHOWN]]
        lines += [f"       {_short(text)}" for text in self.ends[:_SHOWN]]
        return "\n".join((*lines, "", f"verdict: {'all rules hold' if self.holds else 'RULES ARE BROKEN'}"))

    def write(self, path: Path) -> None:
        """All of it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "holds": self.holds,
            "plan": asdict(self.plan),
            "rules": [rule._asdict() for rule in self.rules],
            "figures": self.figures,
            "wrongs": [wrong._asdict() for wrong in self.wrongs],
            "ends": list(self.ends),
        }
        path.write_text(json.dumps(document, indent=1) + "\n")


def report(
    plan: Plan, checker: Checker, good: Good, hostile: Hostile, processes: Processes, began_s: float, end_s: float
) -> Report:
    """What a run came to, from what its parts counted. began_s, end_s: of the monotonic clock."""
    waits = figures.waits(checker.waited(), processes.gaps, end_s)
    growth = figures.growth(processes.samples, end_s - began_s)
    ends = [f"{one.name} ended by itself after {one.at_s:.0f} s: {one.text}" for one in processes.ends]
    rules = [
        *(_none(rule, [one for one in checker.wrongs if one.rule == rule]) for rule in (HELD_TWICE, WITHOUT_DEVICES)),
        figures.time_rule(waits),
        figures.memory_rule(growth, end_s - began_s),
        _none("process ended by itself", ends),
    ]
    return Report(plan, rules, _figures(checker, good, hostile, processes, waits), checker.wrongs, ends)


def _short(text: str) -> str:
    """Its first line, and the beginning of its last one."""
    first, *_, last = (*text.splitlines(), "")
    return f"{first}\n         {last[:_WIDTH]}"


def _none(name: str, found: Sequence[object]) -> Rule:
    return Rule(f"no {name}", f"{len(found)}", not found)


def _figures(checker: Checker, good: Good, hostile: Hostile, processes: Processes, waits: Waits) -> dict[str, object]:
    resident = {name: round(mib) for name, mib in processes.resident_mib().items()}
    return {
        "revisions checked": checker.revisions,
        "good pods": f"{good.created} created, {good.bound} bound, {good.held_back} held back",
        "good calls that failed": "; ".join((str(len(good.failed)), *good.failed[:3])),
        "wait, p50": f"{waits.p50_s:.3f} s",
        "wait, p99": f"{waits.p99_s:.3f} s",
        "wait, longest": f"{waits.longest_s:.3f} s",
        "pods left out of the waits (a kill)": waits.left_out,
        "hostile acts": hostile.done,
        "hostile answers": _answers(hostile.answers),
        "kills": len(processes.gaps),
        "kill to ready, s": [round(gap.until_s - gap.from_s, 1) for gap in processes.gaps if gap.until_s],
        "memory, MiB": resident,
    }


def _answers(answers: Counter[tuple[str, int]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (act, status), number in sorted(answers.items()):
        found.setdefault(act, {})[str(status)] = number
    return found


def progress(at_s: float, checker: Checker, good: Good, hostile: Hostile, processes: Processes) -> str:
    """One line."""
    memory = "+".join(f"{mib:.0f}" for mib in processes.resident_mib().values())
    return (
        f"{at_s:5.0f} s: {good.created} good pods, {good.pending} of them wait; {hostile.done} hostile acts; "
        f"{len(processes.gaps)} kills, {len(processes.ends)} ends; {memory} MiB; "
        f"{checker.revisions} revisions, {len(checker.wrongs)} wrong"
    )
