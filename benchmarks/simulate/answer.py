"""What `dra simulate -o json` answered, and whether it is an answer that may be measured."""

from pathlib import Path

from benchmarks.offline.answer import WrongOutput
from benchmarks.simulate.figures import FleetLoad
from scheduler.simulation.result import Summary, result_of

LEAST_PLACED = 0.95
"""The part of the pods that has to get a node: the load is less than the fleet."""


def read(file: Path) -> Summary:
    """The summary of the only scenario. Raises WrongOutput."""
    try:
        (scenario,) = result_of(file.read_text()).scenarios
    except ValueError as error:
        raise WrongOutput(f"the output is no result of one scenario: {error}") from error
    return scenario.summary


def check(found: Summary, load: FleetLoad) -> Summary:
    """The summary, if all pods have arrived and nearly all of them got a node and left it. Raises WrongOutput."""
    if found.arrivals != load.arrivals:
        raise WrongOutput(f"{found.arrivals:,} pods arrived, but there are {load.arrivals:,}")
    if found.placed < LEAST_PLACED * load.arrivals:
        raise WrongOutput(f"{found.placed:,} of {load.arrivals:,} pods were placed, less than {LEAST_PLACED:.0%}")
    if found.running or found.ended != found.placed:
        raise WrongOutput(f"of {found.placed:,} pods that were placed, {found.ended:,} have ended")
    return found
