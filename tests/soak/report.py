"""What is printed and written at the end."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.soak import figures
from tests.soak.checker import HELD_TWICE, WITHOUT_DEVICES, Checker, Wrong
from tests.soak.figures import Rule, WaitTimes
from tests.soak.good import Good
from tests.soak.hostile import Hostile
from tests.soak.plan import Plan
from tests.soak.processes import Processes
from tests.soak.usage import usage_of

_SHOWN = 20
_SLOWEST = 10
_WIDTH = 400
_FAILED = 3


@dataclass(frozen=True, slots=True)
class Report:
    """rules: the verdict. figures: the rest, by their names. stories: what led to the first broken rules, and what
    became of the pods that waited longest.
    """

    plan: Plan
    rules: Sequence[Rule]
    figures: Mapping[str, object]
    wrongs: Sequence[Wrong]
    ends: Sequence[str]
    stories: Mapping[str, Sequence[str]]

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
            "stories": self.stories,
            "ends": list(self.ends),
        }
        path.write_text(json.dumps(document, indent=1) + "\n")


@dataclass(frozen=True, slots=True)
class Run:
    """The parts of a run, which have counted what they did. others: processes to tell the use of, by name."""

    plan: Plan
    checker: Checker
    good: Good
    hostile: Hostile
    processes: Processes
    others: Mapping[str, int]
    began_s: float

    def report(self, end_s: float, decision_ms: Mapping[str, float]) -> Report:
        """What it came to. end_s: of the monotonic clock, when the load was over; decision_ms: the mean, by process."""
        lasted_s, wrongs = end_s - self.began_s, self.checker.wrongs
        within_s = self.plan.bound_within_s
        waits = figures.waits(self.checker.waited(), self.processes.gaps, end_s, within_s)
        ends = [f"{one.name} ended by itself after {one.at_s:.0f} s: {one.text}" for one in self.processes.ends]
        rules = [
            *(none_of(rule, [one for one in wrongs if one.rule == rule]) for rule in (HELD_TWICE, WITHOUT_DEVICES)),
            figures.time_rule(waits, within_s),
            figures.memory_rule(figures.growth(self.processes.samples, lasted_s), lasted_s),
            none_of("process ended by itself", ends),
        ]
        found = {**self._figures(waits, lasted_s), "decision, mean, ms": rounded(decision_ms)}
        return Report(self.plan, rules, found, wrongs, ends, self._stories(end_s))

    def _stories(self, end_s: float) -> Mapping[str, Sequence[str]]:
        waited = sorted(self.checker.waited(), key=lambda one: one.ready_s - (one.bound_s or end_s))
        reported = {f"{one.pod} waited": self.checker.story(one) for one in waited[:_SLOWEST]}
        return {one.text: self.checker.story(one) for one in self.checker.wrongs[:_SHOWN]} | reported

    def progress(self, at_s: float) -> str:
        """One line."""
        memory = "+".join(f"{mib:.0f}" for mib in self.processes.resident_mib().values())
        return (
            f"{at_s - self.began_s:5.0f} s: {self.good.created} good pods, {self.good.pending} of them wait; "
            f"{self.hostile.sent} hostile objects; {len(self.processes.gaps)} kills, {len(self.processes.ends)} ends; "
            f"{memory} MiB; {self.checker.revisions} revisions, {len(self.checker.wrongs)} wrong"
        )

    def _figures(self, waits: WaitTimes, lasted_s: float) -> Mapping[str, object]:
        good, gaps = self.good, self.processes.gaps
        return {
            "revisions checked": self.checker.revisions,
            "good pods": f"{good.created} created, {good.bound} bound, {good.held_back} held back",
            "good calls that failed": "; ".join((str(len(good.failed)), *good.failed[:_FAILED])),
            "wait, p50": f"{waits.p50_s:.3f} s",
            "wait, p99": f"{waits.p99_s:.3f} s",
            "wait, longest": f"{waits.longest_s:.3f} s",
            "watch behind the answer, p99": f"{figures.percentile(sorted(good.late_s) or [0.0], 0.99):.3f} s",
            "pods left out of the waits (a kill)": waits.left_out,
            "hostile acts": self.hostile.acts,
            "hostile objects": self.hostile.sent,
            "hostile answers": _answers(self.hostile.answers),
            "kills": len(gaps),
            "kill to ready, s": [round(gap.until_s - gap.from_s, 1) for gap in gaps if gap.until_s],
            "memory, MiB": rounded(self.processes.resident_mib()),
            "processors in use": rounded({name: cpu_s / lasted_s for name, cpu_s in self._cpu_s().items()}),
        }

    def _cpu_s(self) -> dict[str, float]:
        others = {name: usage.cpu_s for name, pid in self.others.items() if (usage := usage_of(pid))}
        return {**others, **self.processes.cpu_s()}


def rounded(found: Mapping[str, float]) -> dict[str, float]:
    """With two digits."""
    return {name: round(figure, 2) for name, figure in found.items()}


def _short(text: str) -> str:
    """Its first line, and the beginning of its last one."""
    first, *rest = text.splitlines()
    return "\n         ".join((first, *(line[:_WIDTH] for line in rest[-1:])))


def none_of(name: str, found: Sequence[object]) -> Rule:
    """The rule that there is none of it."""
    return Rule(f"no {name}", str(len(found)), not found)


def _answers(answers: Counter[tuple[str, int]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (act, status), number in sorted(answers.items()):
        found.setdefault(act, {})[str(status)] = number
    return found
