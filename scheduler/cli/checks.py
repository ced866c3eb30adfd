"""What `dra audit` and `dra lint` share: their output, and when they fail."""

from collections.abc import Callable, Sequence

import click

from allocator.words import counted
from scheduler.checks.contract import Check, Checked, FindingLevel, ObjectName, Observation, run
from scheduler.cli.cluster_source import ShownObjects
from scheduler.cli.ending import print_to_stderr, stop
from scheduler.cli.printing import after_delay, output_option, print_report
from scheduler.input.inventory import Inventory
from scheduler.output.check_results import (
    JUNIT,
    SARIF,
    FindingsReport,
    InputPlaces,
    key_of_object,
)
from scheduler.output.data_page import MapColumns, PageTable
from scheduler.output.report import JSON, PAGE, TEXT

NEVER = "never"

findings_option = output_option(TEXT, JSON, SARIF, JUNIT, PAGE)
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice([*map(str, FindingLevel), NEVER]),
    default=str(FindingLevel.ERROR),
    show_default=True,
    help="Exit with 1 if there is a finding of this level, or of a worse one.",
)

_WORST_FIRST = (FindingLevel.ERROR, FindingLevel.WARNING, FindingLevel.NOTE)

EXIT_CODES = """
\b
Exit codes: 0 if there is no finding of the level of --fail-on or a worse one, 1 if there is, 2 for invalid input.
"""


def report_findings(  # noqa: PLR0913 - one for each thing that is printed
    rules: Sequence[Check[Checked]],
    checked: Checked,
    inventory: Inventory,
    shown: ShownObjects,
    *,
    name: str,
    output: str,
    fail_on: str,
    devices: Callable[[Checked], tuple[MapColumns, Sequence[PageTable]]],
    head: Sequence[str],
) -> int:
    """Run the rules and print what they find. The exit code, if all of the input could be read.

    name: of the command. devices, head: of a page.
    """
    if not _shows_an_object(inventory, shown):
        stop(f"nothing is checked: the input contains no object {shown}")
    with after_delay("checking ..."):
        findings = list(run(rules, checked))
    every = len(findings)
    findings = [one for one in findings if _is_shown(one.observation, inventory, shown)]
    findings = sorted(findings, key=lambda one: _WORST_FIRST.index(one.rule.level))
    numbers = {level: sum(one.rule.level is level for one in findings) for level in _WORST_FIRST}
    summary = ", ".join(counted(number, level) for level, number in numbers.items())
    summary = f"{len(rules)} rules: {summary}{_hidden(every - len(findings), shown)}"
    report = FindingsReport(name, summary, findings, rules, InputPlaces(inventory), lambda: devices(checked))
    print_report(report, output, head)
    print_to_stderr([summary])
    return int(_fails(numbers, fail_on))


def _shows_an_object(inventory: Inventory, shown: ShownObjects) -> bool:
    """Whether an object of the input is among those that are shown, whatever is found of it."""
    objects = {*inventory.versions, *inventory.faults}
    return shown.is_everything or any(shown.has(key[1], inventory.labels.get(key, {})) for key in objects)


def _hidden(number: int, shown: ShownObjects) -> str:
    findings = counted(number, "finding is", "findings are")
    return f"; {findings} not about objects {shown}, and not shown" if number else ""


def _is_shown(one: Observation, inventory: Inventory, shown: ShownObjects) -> bool:
    """True for a finding about an object that is shown, or about a device that such a claim holds."""
    if shown.is_everything:
        return True
    about = [one.subject, *(ObjectName("ResourceClaim", *reversed(claim.split("/"))) for claim in one.claims)]
    return any(shown.has(named.namespace, inventory.labels.get(key_of_object(named), {})) for named in about)


def _fails(numbers: dict[FindingLevel, int], fail_on: str) -> bool:
    if fail_on == NEVER:
        return False
    counting = _WORST_FIRST[: _WORST_FIRST.index(FindingLevel(fail_on)) + 1]
    return any(numbers[level] for level in counting)
