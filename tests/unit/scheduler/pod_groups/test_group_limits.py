"""A group fits within the limits of its tenant as a whole, or not at all."""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from allocator.limits import ONE_DEVICE, CountedDevices, Namespaces, TenantLimit
from allocator.model import Claim
from scheduler.core_v1.group_terms import GroupTerms
from scheduler.decision.cluster import Cluster
from scheduler.pod_groups.group import LABEL, GroupKey, GroupOfPods
from scheduler.pod_groups.group_placer import missing_text, place_group
from scheduler.pod_groups.group_result import GroupNotPlaced, GroupPlaced, GroupResult
from tests.builders import (
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_user,
    amounts,
    an_alternative,
    first_available,
    kubernetes,
    on_node,
    watched,
)

BIG, SMALL = (f'device.attributes["gpu.example"].model == "{model}"' for model in ("big", "small"))
ASKS = {"big": (BIG,), "small": (SMALL,), "any": ()}
Nodes = Sequence[tuple[int, int]]
"""How many big and small devices each has."""


def limit(most: int) -> TenantLimit:
    return TenantLimit("big", Namespaces(), CountedDevices(selectors=(BIG,)), most * ONE_DEVICE)


def a_cluster(nodes: Nodes, most: int) -> Cluster:
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    cluster.set_class(a_class())
    for number, (big, small) in enumerate(nodes):
        name = f"n{number}"
        cluster.set_node(a_node(name, {"rack": name}, allocatable=amounts(cpu="9", pods="20")))
        devices = [a_device(f"b{one}", {"model": "big"}) for one in range(big)]
        devices += [a_device(f"s{one}", {"model": "small"}) for one in range(small)]
        cluster.set_slice(a_slice(*devices, name=name, pool=name, reach=on_node(name)))
    cluster.set_limits([limit(most)])
    return cluster


def place(cluster: Cluster, *requests: object, least: int = 0, **terms: object) -> tuple[GroupResult, GroupOfPods]:
    """requests: of the members."""
    pods = []
    for number, request in enumerate(requests):
        claim: Claim = a_claim(request, name=f"of-{number}")  # type: ignore[arg-type] # a request
        cluster.set_claim(watched(claim), 1)
        pods.append(a_user(f"g-{number}", claim.name))
    group = GroupOfPods(
        GroupKey(LABEL, "default", "g"),
        tuple(pods),
        least or len(pods),
        terms=GroupTerms(**terms),  # type: ignore[arg-type] # its fields
    )
    return place_group(cluster, group), group


def asking(kind: str, count: int) -> object:
    return a_request("gpu", count, *ASKS[kind])


def models(found: GroupResult) -> list[str]:
    assert isinstance(found, GroupPlaced), found
    devices = (one for member in found.members for got in member.placed.allocations for one in got.results)
    return sorted(one.device[0] for one in devices)


@pytest.mark.parametrize("nodes", [[(4, 0), (4, 0)], [(2, 0)] * 4, [(8, 0)]])
def test_group_is_refused_by_a_limit_that_each_member_would_keep(nodes: Nodes) -> None:
    found, group = place(a_cluster(nodes, 7), *[asking("big", 2)] * 4)
    assert isinstance(found, GroupNotPlaced)
    text = missing_text(found, group.waiting)
    assert text == (
        "4 of 4 pods have to fit at once: 3 of 4 fit; pod g-3: "
        f"0/{len(nodes)} nodes are available: {len(nodes)} cannot allocate all claims. "
        "limit big: 6 of 7 in use, 2 more requested"
    )
    assert models(place(a_cluster(nodes, 8), *[asking("big", 2)] * 4)[0]) == ["b"] * 8


def test_as_many_members_as_the_limit_leaves_are_placed_where_fewer_are_enough() -> None:
    found, _ = place(a_cluster([(4, 0), (4, 0)], 5), *[asking("big", 2)] * 4, least=2)
    assert models(found) == ["b"] * 4


def test_member_takes_an_alternative_that_counts_for_nothing_where_another_needs_the_limit() -> None:
    either = first_available("gpu", an_alternative("b", selectors=(BIG,)), an_alternative("s", selectors=(SMALL,)))
    found, _ = place(a_cluster([(2, 2), (2, 2)], 1), either, either, either)
    assert models(found) == ["b", "s", "s"]
    found, _ = place(a_cluster([(2, 2), (2, 2)], 1), asking("any", 1), asking("any", 1), asking("big", 1))
    assert models(found) == ["b", "s", "s"]


def test_limit_holds_for_slices_of_a_group_and_within_a_rack() -> None:
    four = [asking("big", 1)] * 4
    assert isinstance(place(a_cluster([(4, 0)], 3), *four, required="rack")[0], GroupNotPlaced)
    assert isinstance(place(a_cluster([(4, 0)], 4), *four, required="rack")[0], GroupPlaced)
    assert isinstance(place(a_cluster([(2, 0)] * 2, 3), *four, required="rack", slice_size=2)[0], GroupNotPlaced)
    assert isinstance(place(a_cluster([(2, 0)] * 2, 4), *four, required="rack", slice_size=2)[0], GroupPlaced)


def test_what_was_tried_is_not_in_use_afterwards() -> None:
    cluster = a_cluster([(4, 0), (4, 0)], 7)
    place(cluster, *[asking("big", 2)] * 4)
    assert not cluster.fleet.current.limited.used


# -- against a search that tries everything


def ways(kind: str, count: int) -> Iterator[tuple[int, int]]:
    """How many big and small devices a member can have."""
    yield from (
        (big, count - big) for big in range(count + 1) if kind == "any" or big == (count if kind == "big" else 0)
    )


def fits(nodes: Nodes, most: int, members: Sequence[tuple[str, int]]) -> bool:
    if not members:
        return True
    (kind, count), *rest = members
    for number, (big, small) in product(range(len(nodes)), ways(kind, count)):
        there = nodes[number]
        if big <= min(there[0], most) and small <= there[1]:
            left = [*nodes[:number], (there[0] - big, there[1] - small), *nodes[number + 1 :]]
            if fits(left, most - big, rest):
                return True
    return False


def test_a_search_that_tries_everything_says_the_same() -> None:
    chance = Random(1)  # noqa: S311 - no secret
    seen = {True: 0, False: 0}
    for _ in range(150):
        nodes = [(chance.randint(0, 3), chance.randint(0, 2)) for _ in range(chance.randint(1, 3))]
        members = [(chance.choice(list(ASKS)), chance.randint(1, 2)) for _ in range(chance.randint(2, 4))]
        most = chance.randint(0, 5)
        found, _ = place(a_cluster(nodes, most), *[asking(*one) for one in members])
        expected = fits(nodes, most, members)
        seen[expected] += 1
        assert isinstance(found, GroupPlaced if expected else GroupNotPlaced), (nodes, members, most, found)
        if isinstance(found, GroupPlaced):
            assert models(found).count("b") <= most
    assert min(seen.values()) > 20, seen
