"""Groups that fit in few ways, or barely not: never refused where they fit, and answered within the steps allowed.

Nodes are filled with members first, and given exactly the room that these need; then some room moves from one node to
another. So what was filled fits for certain, and what was moved fits only if members can be exchanged.
"""

from collections import Counter
from random import Random

from scheduler.core_v1.pod import PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import LABEL, GroupKey, GroupOfPods
from scheduler.pod_groups.group_placer import GROUP_STEPS, place_group
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced
from tests import extent
from tests.builders import (
    a_claim,
    a_class,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_request,
    a_slice,
    amounts,
    kubernetes,
    on_node,
    watched,
)

GANGS = extent.chosen("GANGS", 30, 1_000)
STEPS = extent.chosen("GANGS_STEPS", GROUP_STEPS, GROUP_STEPS)
SEED = extent.chosen("GANGS_SEED", 1, extent.day())


def a_gang(rng: Random) -> tuple[Cluster, GroupOfPods, bool]:
    """A cluster, a group, and whether it fits for certain."""
    kinds = [(rng.randint(1, 7), rng.choice([0, 0, 1, 1, 2])) for _ in range(rng.randint(2, 5))]
    nodes = [[rng.choice(kinds) for _ in range(rng.randint(2, 6))] for _ in range(rng.randint(3, 12))]
    rooms = [(sum(cpu for cpu, _ in own), sum(count for _, count in own)) for own in nodes]
    is_moved = rng.random() < 0.5
    if is_moved:
        giver, taker = rng.sample(range(len(rooms)), 2)
        rooms[giver] = rooms[giver][0] - 1, rooms[giver][1]
        rooms[taker] = rooms[taker][0] + 1, rooms[taker][1]
    cluster = Cluster(kubernetes(), is_ours=None)
    cluster.set_class(a_class())
    for number, (cpu, count) in enumerate(rooms):
        name = f"n{number}"
        cluster.set_node(a_node(name, allocatable=amounts(cpu=str(cpu), pods="99")))
        if count:
            devices = [a_device(f"d{place}", pool=name) for place in range(count)]
            cluster.set_slice(a_slice(*devices, name=f"slice-{name}", pool=name, reach=on_node(name)))
    wishes = [wish for own in nodes for wish in own]
    rng.shuffle(wishes)
    members = []
    for place, (cpu, count) in enumerate(wishes):
        name = f"g-{place:03}"
        if count:
            cluster.set_claim(watched(a_claim(a_request("r", count), name=f"claim-{name}")), 1)
        claims = (PodClaim("own", f"claim-{name}"),) if count else ()
        members.append(a_pod(a_container(cpu=str(cpu)), name=name, claims=claims))
    return cluster, GroupOfPods(GroupKey(LABEL, "default", "g"), tuple(members), len(members)), not is_moved


def test_gangs_that_fit_in_few_ways_are_never_refused() -> None:
    outcomes: Counter[str] = Counter()
    for number in range(GANGS):
        cluster, group, fits = a_gang(Random(f"{SEED}/{number}"))  # noqa: S311 - not for secrets
        found = place_group(cluster, group, STEPS)
        assert found.steps <= STEPS
        if isinstance(found, GroupPlaced):
            assert len(found.members) == len(group.members)
            outcomes["placed"] += 1
        else:
            assert not (fits and isinstance(found, GroupNotPlaced)), f"GANGS_SEED={SEED}, gang {number}"
            outcomes["refused" if isinstance(found, GroupNotPlaced) else "unknown"] += 1
    print(f"{GANGS} groups, at most {STEPS:,} steps each: {dict(outcomes)}")  # noqa: T201 - for `make groups-check`
    assert outcomes["unknown"] <= GANGS // 100
    assert outcomes["placed"] > GANGS // 5
    assert outcomes["refused"] > GANGS // 20
