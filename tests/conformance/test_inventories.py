"""A fleet of 17 nodes and 72 pods, dumped from a real API server before and after kube-scheduler placed what it could.

kube-scheduler takes a random one of the nodes that fit best, so devices differ, and how many pods fit depends on it.
With the policy pack as many pods of each kind are placed here as happened to be there; what an allocation looks like,
and what does not fit, is the same.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from allocator.api import decode
from cel.values.quantity import Quantity
from scheduler.cli.main import dra
from scheduler.input.documents import RawObject, read

INVENTORIES = Path(__file__).parents[2].parent / "shared" / "inventories"

pytestmark = pytest.mark.skipif(not INVENTORIES.is_dir(), reason=f"the fleet is not at hand: {INVENTORIES} is absent")

Json = Mapping[str, Any]

CLAIM = "ResourceClaim"


@dataclass(frozen=True)
class Answer:
    """What `dra allocate -o json` said."""

    code: int
    pods: dict[str, Json]
    claims: dict[str, Json]

    @property
    def nodes(self) -> dict[str, str]:
        """Pod to node, of those that have one."""
        return {name: pod["spec"]["nodeName"] for name, pod in self.pods.items() if "nodeName" in pod["spec"]}

    @property
    def allocations(self) -> dict[str, Json]:
        """Claim to allocation, of those that have one."""
        return {name: one["status"]["allocation"] for name, one in self.claims.items() if "allocation" in one["status"]}


def objects_in(*names: str) -> list[Any]:
    found = list(read([str(INVENTORIES / name) for name in names]))
    assert all(isinstance(one, RawObject) for one in found)
    return [one.raw for one in found if isinstance(one, RawObject)]


def named(objects: Sequence[Json], kind: str) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def saved(folder: Path, objects: Sequence[Json]) -> Path:
    path = folder / "input.json"
    path.write_bytes(orjson.dumps(objects))
    return path


def printed(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(dra, ["allocate", "--policy=pack", *map(str, arguments)], prog_name="dra")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout


def answer_to(*arguments: str | Path) -> Answer:
    code, text = printed(*arguments, "-o", "json", "--kubernetes", "1.36")  # of which the dumps are
    items = orjson.loads(text)["items"]
    return Answer(code, named(items, "Pod"), named(items, "ResourceClaim"))


def kind_of(pod: str) -> str:
    """`train` of `train-0`."""
    return pod.rpartition("-")[0]


def kinds(pods: Sequence[str] | Mapping[str, object]) -> Counter[str]:
    return Counter(map(kind_of, pods))


@pytest.fixture(scope="module")
def before() -> list[Any]:
    return objects_in("cluster.yaml", "pending.yaml")


@pytest.fixture(scope="module")
def after() -> list[Any]:
    """What kube-scheduler made of it."""
    return objects_in("scheduled-by-kube-scheduler.yaml")


@pytest.fixture(scope="module")
def ours() -> Answer:
    return answer_to(INVENTORIES / "cluster.yaml", INVENTORIES / "pending.yaml")


@pytest.fixture(scope="module")
def theirs(after: list[Any]) -> Answer:
    return Answer(1, named(after, "Pod"), named(after, "ResourceClaim"))


@pytest.fixture(scope="module")
def reasons(before: list[Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Pod to the line of the table that says why it has no node."""
    _, text = printed(saved(tmp_path_factory.mktemp("reasons"), before))
    lines = (line.split(maxsplit=2) for line in text.splitlines()[1:])
    return {pod.removeprefix("ml/"): reason for pod, _, reason in lines if not reason.startswith(NODES)}


NODES = ("gpu-", "mig-", "vgpu-")


# What is placed


@pytest.mark.parametrize(("kind", "number"), [("infer", 20), ("train", 6), ("rdma", 6), ("flex", 3), ("shared", 2)])
def test_every_pod_of_these_kinds_is_placed(kind: str, number: int, ours: Answer) -> None:
    assert kinds(ours.pods)[kind] == kinds(ours.nodes)[kind] == number


def test_as_many_pods_of_each_kind_are_placed_as_by_kube_scheduler(ours: Answer, theirs: Answer) -> None:
    assert ours.pods.keys() == theirs.pods.keys()
    assert kinds(ours.nodes) == kinds(theirs.nodes)


def test_not_everything_is_placed_and_the_exit_code_says_so(ours: Answer) -> None:
    assert len(ours.nodes) < len(ours.pods)
    assert ours.code == 1


def test_each_pod_that_kube_scheduler_could_not_place_beside_the_others_fits_where_it_is_the_first(
    before: list[Any], theirs: Answer, tmp_path: Path
) -> None:
    path = saved(tmp_path, before)
    waiting = sorted({kind_of(pod): pod for pod in theirs.pods if pod not in theirs.nodes}.values())
    codes = {pod: printed(path, "--pod", f"ml/{pod}")[0] for pod in waiting}
    assert {kind_of(pod) for pod, code in codes.items() if code == 0} == {"mig", "small", "vgpu"}
    assert {kind_of(pod) for pod, code in codes.items() if code == 1} == {"node", "wish"}


@pytest.mark.parametrize("pod", [f"rdma-{number}" for number in range(6)] + ["infer-19", "train-5", "xid-0", "flex-2"])
def test_a_pod_that_is_asked_for_alone_fits(pod: str, before: list[Any], tmp_path: Path) -> None:
    answer = answer_to(saved(tmp_path, before), "--pod", f"ml/{pod}")
    assert (answer.code, list(answer.nodes)) == (0, [pod])


def test_what_kube_scheduler_pending_is_pending_beside_what_it_placed(theirs: Answer) -> None:
    answer = answer_to(INVENTORIES / "cluster.yaml", INVENTORIES / "scheduled-by-kube-scheduler.yaml")
    assert answer.nodes == {}
    assert answer.pods.keys() == theirs.pods.keys() - theirs.nodes.keys()


def test_the_order_of_the_files_does_not_matter(ours: Answer) -> None:
    assert answer_to(INVENTORIES / "pending.yaml", INVENTORIES / "cluster.yaml") == ours


def in_version(version: str, before: Sequence[Json]) -> list[Any]:
    """The fleet and the pods before, with the objects of resource.k8s.io as that version wrote them afterwards."""
    older = objects_in(f"resource-{version}.yaml")
    assert {one["apiVersion"] for one in older} == {f"resource.k8s.io/{version}"}
    return [*(one for one in before if not one["apiVersion"].startswith("resource.k8s.io/")), *older]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_the_same_fleet_in_an_older_version_is_placed_alike(
    version: str, before: list[Any], ours: Answer, tmp_path: Path
) -> None:
    older = in_version(version, before)
    # The names of generated claims stand in the status of the pods, the room for pods in that of the nodes.
    claims = [{key: part for key, part in one.items() if key != "status"} for one in older if one["kind"] == CLAIM]
    others = [one for one in older if one["kind"] not in (CLAIM, "Pod")]
    answer = answer_to(saved(tmp_path, [*others, *claims, *named(before, "Pod").values()]))
    assert (answer.nodes, answer.allocations) == (ours.nodes, ours.allocations)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_claims_that_an_older_version_wrote_as_allocated_bring_their_pods_where_they_were(
    version: str, before: list[Any], theirs: Answer, tmp_path: Path
) -> None:
    answer = answer_to(saved(tmp_path, in_version(version, before)))
    assert (answer.nodes, answer.allocations) == (theirs.nodes, theirs.allocations)


# What an allocation looks like


def shape_of(value: Any, field: str = "") -> Any:
    """The allocation without what differs from run to run: which devices of which node, ids and times."""
    if isinstance(value, dict):
        return {key: shape_of(inner, key) for key, inner in value.items() if key != "allocationTimestamp"}
    if isinstance(value, list):
        return [] if field == "values" else [shape_of(inner, field) for inner in value]
    return "" if field in ("device", "pool", "shareID") else value


def test_an_allocation_has_the_shape_that_kube_scheduler_gives_it(ours: Answer, theirs: Answer) -> None:
    both = ours.allocations.keys() & theirs.allocations.keys()
    assert len(both) > 40
    for name in both:
        assert shape_of(ours.allocations[name]) == shape_of(theirs.allocations[name]), name


def test_a_placed_pod_is_on_the_node_that_its_claims_reach(ours: Answer) -> None:
    for name, node in ours.nodes.items():
        for claim in claims_of(ours.pods[name]):
            (term,) = ours.allocations[claim]["nodeSelector"]["nodeSelectorTerms"]
            assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def claims_of(pod: Json) -> list[str]:
    statuses = {one["name"]: one["resourceClaimName"] for one in pod["status"].get("resourceClaimStatuses", ())}
    return [entry.get("resourceClaimName") or statuses[entry["name"]] for entry in pod["spec"]["resourceClaims"]]


def test_claims_are_reserved_and_protected_as_kube_scheduler_does(ours: Answer, theirs: Answer) -> None:
    for name in ours.allocations.keys() & theirs.allocations.keys():
        mine, other = ours.claims[name], theirs.claims[name]
        assert mine["metadata"]["finalizers"] == other["metadata"]["finalizers"]
        assert mine["metadata"]["uid"] == other["metadata"]["uid"]
        assert mine["spec"] == other["spec"]
        key = "uid"
        assert sorted(one[key] for one in mine["status"]["reservedFor"]) == sorted(
            one[key] for one in other["status"]["reservedFor"]
        )


def test_every_claim_that_is_written_is_one_that_the_api_takes(ours: Answer) -> None:
    assert len(ours.claims) > 60
    for claim in ours.claims.values():
        decoded = decode(claim)
        assert (decoded.errors, decoded.warnings) == ((), ())


# What no allocation may do


def results_of(answer: Answer) -> Iterator[tuple[tuple[str, str, str], Json]]:
    for allocation in answer.allocations.values():
        for result in allocation["devices"]["results"]:
            yield (result["driver"], result["pool"], result["device"]), result


def published(
    objects: Sequence[Json],
) -> tuple[dict[tuple[str, str, str], Json], dict[tuple[str, str, str, str], Quantity]]:
    """Devices by id, and counters by (driver, pool, set, counter)."""
    devices: dict[tuple[str, str, str], Json] = {}
    counters: dict[tuple[str, str, str, str], Quantity] = {}
    for slice_ in named(objects, "ResourceSlice").values():
        spec = slice_["spec"]
        pool = (spec["driver"], spec["pool"]["name"])
        devices |= {(*pool, device["name"]): device for device in spec.get("devices", ())}
        for one in spec.get("sharedCounters", ()):
            counters |= {(*pool, one["name"], k): Quantity.parse(v["value"]) for k, v in one["counters"].items()}
    return devices, counters


def test_no_device_is_given_twice_unless_it_is_shared(ours: Answer, before: list[Any]) -> None:
    devices, _ = published(before)
    times = Counter(device for device, result in results_of(ours) if "shareID" not in result)
    assert times.keys() <= devices.keys()
    assert set(times.values()) == {1}
    ids = [result["shareID"] for _, result in results_of(ours) if "shareID" in result]
    assert len(ids) == len(set(ids)) > 0


def test_shares_of_a_device_do_not_consume_more_than_it_has(ours: Answer, before: list[Any]) -> None:
    devices, _ = published(before)
    consumed: defaultdict[tuple[tuple[str, str, str], str], int] = defaultdict(int)
    for device, result in results_of(ours):
        for name, amount in result.get("consumedCapacity", {}).items():
            consumed[device, name] += Quantity.parse(amount).nanos
    assert consumed
    for (device, name), amount in consumed.items():
        assert amount <= Quantity.parse(devices[device]["capacity"][name]["value"]).nanos


def test_partitions_of_a_device_do_not_consume_more_than_its_counters(ours: Answer, before: list[Any]) -> None:
    devices, counters = published(before)
    consumed: defaultdict[tuple[str, str, str, str], int] = defaultdict(int)
    for device, _ in results_of(ours):
        for one in devices[device].get("consumesCounters", ()):
            for name, value in one["counters"].items():
                consumed[*device[:2], one["counterSet"], name] += Quantity.parse(value["value"]).nanos
    assert consumed
    for key, amount in consumed.items():
        assert amount <= counters[key].nanos


# Why something is not placed


def test_a_reason_is_reported_for_each_pod_that_is_not_placed(ours: Answer, reasons: dict[str, str]) -> None:
    assert reasons.keys() == ours.pods.keys() - ours.nodes.keys()


def test_a_wish_for_nine_devices_says_that_no_node_has_them(reasons: dict[str, str]) -> None:
    assert reasons["wish-0"].startswith("0/17 nodes: no node has 9 devices for request gpus, the most is 8, on gpu-")


def test_a_wish_for_all_devices_says_which_pool_is_incomplete_as_kube_scheduler_does(
    reasons: dict[str, str], theirs: Answer
) -> None:
    for pod in ("node-0", "node-1"):
        (message,) = (c["message"] for c in theirs.pods[pod]["status"]["conditions"] if c["type"] == "PodScheduled")
        assert "resource pool gpu.nvidia.example/gpu-07 is currently being updated" in message
        assert "pool gpu.nvidia.example/gpu-07 is being updated (1 of 2 slices of generation 1 exist)" in reasons[pod]


@pytest.mark.parametrize("kind", ["small", "vgpu"])
def test_a_share_that_does_not_fit_says_that_capacity_is_lacking(kind: str, reasons: dict[str, str]) -> None:
    reported = [reason for pod, reason in reasons.items() if kind_of(pod) == kind]
    assert reported
    assert all("too little capacity left" in reason for reason in reported)
