"""The largest claim that still fits on one node: for how many devices of a class, and on which nodes."""

from dataclasses import dataclass

from allocator.fleet.fleet import Fleet
from allocator.model import Alternative, Claim, Request
from allocator.outcome import AllocationError
from allocator.requests.candidates import MAX_RESULTS
from allocator.search.rules import Mask

_NAME = "largest-claim"


@dataclass(frozen=True, slots=True)
class LargestClaim:
    """count: of devices in one request without selectors of its own; at most 32, as the API allows. nodes: that fit it.

    error: why it cannot be determined, or empty.
    """

    count: int = 0
    nodes: Mask = 0
    error: str = ""


def largest_claim(fleet: Fleet, class_name: str) -> LargestClaim:
    """The largest claim for devices of the class that a node of the fleet has room for now.

    Cost: six questions to the fleet. If a claim fits, so does each smaller one.
    """
    found, too_many = LargestClaim(), MAX_RESULTS + 1
    try:
        while too_many - found.count > 1:
            count = (found.count + too_many) // 2
            if nodes := fleet.able([_claim(class_name, count)]):
                found = LargestClaim(count, nodes)
            else:
                too_many = count
    except AllocationError as error:
        return LargestClaim(error=str(error))
    return found


def _claim(class_name: str, count: int) -> Claim:
    return Claim("", _NAME, _NAME, (Request("devices", (Alternative("devices", class_name, count=count),)),))
