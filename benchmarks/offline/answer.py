"""What `dra allocate -o json` answered, and whether it is an answer that may be measured."""

from pathlib import Path
from typing import Any, NamedTuple

import orjson

from benchmarks.offline.cases import Case


class WrongOutput(Exception):
    """The answer is not the one that the case has; the message says why."""


class Answer(NamedTuple):
    """How many pods were placed and how many were refused."""

    placed: int
    refused: int


def read(file: Path) -> Any:
    """The document that the program wrote. Raises WrongAnswer."""
    try:
        return orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise WrongOutput(f"the output is not JSON: {error}") from error


def check(document: Any, case: Case, pods: int) -> Answer:
    """The numbers of the List, if they are right for the case. Raises WrongAnswer."""
    try:
        answer = _counted(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise WrongOutput(f"the output is no List of claims and pods: {error!r}") from error
    total = answer.placed + answer.refused
    if total != pods:
        raise WrongOutput(
            f"{answer.placed:,} pods placed and {answer.refused:,} refused are {total:,}, but there are {pods:,}"
        )
    if not case.least <= answer.refused / pods <= case.most:
        wanted = f"{case.least:.0%}" if case.least == case.most else f"{case.least:.0%} to {case.most:.0%}"
        raise WrongOutput(f"{answer.refused:,} of {pods:,} pods refused, but it has to be {wanted}")
    return answer


def _counted(document: Any) -> Answer:
    placed = refused = 0
    for pod in (one for one in document["items"] if one["kind"] == "Pod"):
        has_node, is_refused = "nodeName" in pod["spec"], _is_refused(pod)
        if has_node == is_refused:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            raise WrongOutput(f"pod {name} is {'both placed and' if has_node else 'neither placed nor'} refused")
        placed += has_node
        refused += is_refused
    return Answer(placed, refused)


def _is_refused(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)
