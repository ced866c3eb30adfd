"""What people are told of how a cluster was read."""

from scheduler.cli.live_cluster import problems
from scheduler.client import api_resources
from scheduler.client.discovery import ListedResource

CLAIMS, CLASSES = api_resources.claims("v1"), api_resources.classes("v1")


def test_kinds_that_were_read_later_than_the_rest_are_named() -> None:
    pods, nodes = ListedResource(api_resources.PODS, moment="9"), ListedResource(api_resources.NODES, problem="403")
    assert problems([ListedResource(CLAIMS, moment="7"), ListedResource(CLASSES, moment="7"), nodes, pods]) == [
        "warning: nodes (v1) cannot be read and are left out: 403",
        "warning: pods (v1) were read later than the rest, and may not match it",
    ]
    assert problems([ListedResource(CLAIMS, moment="7"), ListedResource(CLASSES, moment="7")]) == []
