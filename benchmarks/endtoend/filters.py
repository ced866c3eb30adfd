"""Whether pods lie as they asked: over zones evenly, and apart from others of their app."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from benchmarks.endtoend.workload import ZONES, Asks, app_of, zone_of


def misplaced(asks: Asks, places: Iterable[tuple[int, int]]) -> str:
    """What is wrong, empty where nothing is. places: the number of each pod, and that of its node."""
    on_nodes: Counter[tuple[str, int]] = Counter()
    in_zones: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod, node in places:
        on_nodes[app_of(pod), node] += 1
        in_zones[app_of(pod)][zone_of(node)] += 1
    if asks.apart and (crowded := [place for place, number in on_nodes.items() if number > 1]):
        app, node = crowded[0]
        return f"{on_nodes[app, node]} pods of {app} on node {node}, which keep apart"
    skewed = (app for app, zones in in_zones.items() if _skew(zones) > 1)
    if asks.spread and (app := next(skewed, "")):
        return f"{app} has {dict(in_zones[app])} pods in zones, which are more than one apart"
    return ""


def _skew(zones: Counter[str]) -> int:
    numbers = [zones[zone] for zone in ZONES]
    return max(numbers) - min(numbers)
