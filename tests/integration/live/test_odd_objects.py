"""Objects that cannot be read, or are nested deep, beside good ones: the scheduler goes on, and says which they are."""

import sys
from collections.abc import Iterator

import pytest

from tests.controlplane.identities import OURS
from tests.controlplane.ours import Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLAIM
from tests.integration.live.world import EVENT, NAMESPACE, SCHEDULER, World
from tests.integration.odd_world import CHANGES, RESOURCES, OddWorld, spec_of_no_shape
from tests.odd_objects import nested

DEPTHS = (200, 249, 255, 1000, 1016, 1024, 2500)


@pytest.fixture
def _deep_json() -> Iterator[None]:
    """The test reads what is nested so deep, too, when it looks at claims and removes them."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("_deep_json")
def test_claims_with_parameters_of_any_depth_are_allocated_and_their_pods_bound(world: World) -> None:
    world.a_cluster(devices=len(DEPTHS))
    for depth in DEPTHS:
        world.api.create_text(CLAIM, NAMESPACE, a_deep_claim(f"deep-{depth}", depth))
    for depth in DEPTHS:
        world.a_pod(f"deep-{depth}", f"deep-{depth}")
    for depth in DEPTHS:
        world.bound(f"deep-{depth}")
        claim = world.claim(f"deep-{depth}")
        asked, given = claim["spec"]["devices"]["config"], claim["status"]["allocation"]["devices"]["config"]
        assert given[0]["opaque"] == asked[0]["opaque"]


def a_deep_claim(name: str, depth: int) -> bytes:
    text = """{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"%s"},"spec":{"devices":{
    "requests":[{"name":"r","exactly":{"deviceClassName":"gpu"}}],
    "config":[{"opaque":{"driver":"gpu.example","parameters":%s}}]}}}"""
    return (text % (name, nested(depth).replace(" ", ""))).encode()


@pytest.fixture
def odd(world: World) -> Iterator[OddWorld]:
    found = OddWorld(world, SCHEDULER)
    yield found
    found.end()


def test_object_that_cannot_be_read_costs_itself_alone_and_is_named(world: World, odd: OddWorld) -> None:
    for name, change in CHANGES.items():
        odd.tell(change)
        odd.place(name)
    world.await_metric('dra_scheduler_watch_refused_objects{resource="nodes"}', odd.refused()["pods"])
    log = world.program.log.read_text()
    for named in ("nodes (v1): odd is", "pods (v1): live/odd is", "resourceclaims (resource.k8s.io/v1): live/odd is"):
        assert f"{named} left out: spec: must be an object (got 7)" in log
    events = world.api.await_all(EVENT, lambda found: any(one["reason"] == "Unreadable" for one in found))
    assert {one["regarding"]["kind"] for one in events if one["reason"] == "Unreadable"} >= {"ResourceClaim"}


@pytest.mark.parametrize("pages", [False, True])
def test_program_starts_where_objects_cannot_be_read(
    world: World, odd: OddWorld, plane: ControlPlane, *, pages: bool
) -> None:
    if pages:
        odd.list_by_pages()
    odd.tell(spec_of_no_shape)
    with scheduler(plane, ["--dry-run"], kubeconfig=world.proxy.kubeconfig(OURS), name="second") as second:
        assert refused_by(second) == dict.fromkeys(RESOURCES, 1.0)
        odd.place("good")


def refused_by(program: Scheduler) -> dict[str, float]:
    series = "dra_scheduler_watch_refused_objects"
    lines = [line for line in program.told("/metrics").splitlines() if line.startswith(series)]
    told = {line.partition(" ")[0]: float(line.partition(" ")[2]) for line in lines}
    return {one: told[f'{series}{{resource="{one}"}}'] for one in RESOURCES}
