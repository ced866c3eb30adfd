from collections.abc import Mapping, Sequence
from random import Random

import pytest

from allocator.allocate import share_id_of
from allocator.cluster.snapshot import Snapshot
from allocator.features.contract import attempt_of
from allocator.gates import DEFAULT_RELEASE, Features
from allocator.model import DeviceClass, Slice
from allocator.policies.least_fragmentation import Partitions, partitioned
from allocator.policies.min_fragmentation import layout_of, score_of_left
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import take_inventory
from scheduler.simulation.blueprint import slices
from scheduler.simulation.catalogue import MACHINES
from scheduler.simulation.devices import A100_80GB, GPU_DRIVER, H100_80GB, Host, MigProfile, Partitioning
from tests.builders import a_node, a_result, an_allocated_claim
from tests.unit.allocator.policies.hardware import a_partition, holding, mig_slices
from tests.unit.allocator.policies.simulation import chosen

POLICY = "min-fragmentation"
FEATURES = Features.of(DEFAULT_RELEASE)


@pytest.mark.parametrize(
    ("profile", "held", "expected"),
    [
        pytest.param("1g", [], "gpu-0-1g-6", id="beside the slice that nobody else begins at"),
        pytest.param("3g", [], "gpu-0-3g-4", id="where no 4g can be"),
        pytest.param("2g", ["gpu-0-3g-4"], "gpu-0-2g-0", id="what is left there blocks less than a GPU that is whole"),
        pytest.param("1g", ["gpu-0-4g-0", "gpu-1-3g-4"], "gpu-0-1g-6", id="the half without a 4g"),
        pytest.param("7g", ["gpu-0-1g-0"], "gpu-1-7g-0", id="a whole one"),
    ],
)
def test_a_partition_blocks_the_fewest_start_positions(profile: str, held: Sequence[str], expected: str) -> None:
    assert chosen(POLICY, mig_slices("n", 2), a_partition("c", profile), held=[holding(*held)]) == [expected]


def test_partitions_of_one_claim_count_one_after_the_other() -> None:
    assert chosen(POLICY, mig_slices("n", 1), a_partition("a", "3g"), a_partition("b", "1g")) == [
        "gpu-0-3g-4",
        "gpu-0-1g-0",
    ]


def the_pool(machine: str) -> list[Slice]:
    """One GPU as it is generated."""
    raw = slices(MACHINES[machine], Host("n", 1, "1.0.0"))
    inventory = take_inventory((RawObject(Place("fleet"), one) for one in raw), features=FEATURES)
    assert not inventory.errors
    return inventory.slices


@pytest.mark.parametrize(("machine", "table"), [("mig-h100", H100_80GB), ("mig-a100-80gb", A100_80GB)])
def test_slices_and_profiles_follow_from_counters_alone(machine: str, table: Partitioning) -> None:
    snapshot = Snapshot.of(the_pool(machine), [DeviceClass("gpu")], [], FEATURES)
    [counter_set] = partitioned(snapshot.view(a_node("n"))).values()
    layout = layout_of(counter_set)
    assert [counter_set.names[place] for place in layout.slices] == [f"memory-slice-{number}" for number in range(8)]
    expected = sorted((one.memory, sorted(one.places)) for one in table.profiles)
    slices_by_place = {place: number for number, place in enumerate(layout.slices)}
    found = sorted(
        (one.slices, sorted(min(slices_by_place[place] for place in start) for start in one.starts))
        for one in layout.profiles
    )
    assert found == expected


def blocked(table: Partitioning, held: Sequence[tuple[str, int]]) -> int:
    """The score by the table of profiles, without counters."""
    by_name = {one.name: one for one in table.profiles}
    taken = {slice_ for name, start in held for slice_ in range(start, start + by_name[name].memory)}
    score = 0
    for profile in table.profiles:
        fits = len(taken) + profile.memory <= 8 and all(
            sum(engines(by_name[name])[kind] for name, _ in held) + amount <= engines(table.profiles[-1])[kind]
            for kind, amount in engines(profile).items()
        )
        starts = [place for place in profile.places if taken & set(range(place, place + profile.memory))]
        score += profile.memory * len(starts) * fits
    return score


def engines(profile: MigProfile) -> Mapping[str, int]:
    kinds = ("compute", "copy_engines", "decoders", "jpeg_engines", "optical_flow_engines")
    return {kind: getattr(profile, kind) for kind in kinds}


@pytest.mark.parametrize(("machine", "table"), [("mig-h100", H100_80GB), ("mig-a100-80gb", A100_80GB)])
def test_the_score_of_counters_is_that_of_the_table_of_profiles(machine: str, table: Partitioning) -> None:
    pool = the_pool(machine)
    scores = set()
    for seed in range(150):
        held = filled(table, Random(seed))  # noqa: S311 - no secret
        names = [f"gpu-0-mig-{name.replace('.', '').replace('+', '-')}-{place}" for name, place in held]
        claims = [an_allocated_claim(a_result(name, driver=GPU_DRIVER, pool="n"), name=name) for name in names]
        snapshot = Snapshot.of(pool, [DeviceClass("gpu")], claims, FEATURES)
        view = snapshot.view(a_node("n"))
        partitions = Partitions(attempt_of(snapshot, view, share_id_of))
        [(counter_set, left)] = partitions.after(())[0].items()
        score = score_of_left(layout_of(partitioned(view)[counter_set]), left)
        assert score == blocked(table, held), held
        scores.add(score)
    assert len(scores) > 10


def filled(table: Partitioning, rng: Random) -> list[tuple[str, int]]:
    """Some partitions that do not overlap, by profile and start."""
    held: list[tuple[str, int]] = []
    taken: set[int] = set()
    by_name = {one.name: one for one in table.profiles}
    for profile, place in rng.sample(list(table.partitions()), rng.randrange(8)):
        own = set(range(place, place + profile.memory))
        others = [by_name[name] for name, _ in held]
        has_engines = all(
            sum(engines(one)[kind] for one in (*others, profile)) <= whole
            for kind, whole in engines(table.profiles[-1]).items()
        )
        if not own & taken and has_engines:
            held.append((profile.name, place))
            taken |= own
    return held
