"""DynamicResources: the better the alternatives that a node gives to the pod's requests, the better.

A node's rank is the sum over requests with `firstAvailable` of 8 - position of the alternative chosen there.
Source: KEP-4816.
"""

from scheduler.plugins.scores.normalize import normalized
from scheduler.state.masks import Numbers

WEIGHT = 2


def dynamic_resources(ranks: Numbers) -> Numbers:
    """The scores of nodes with such ranks."""
    return normalized(ranks)
