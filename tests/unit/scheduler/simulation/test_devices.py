"""Partitions, against NVIDIA's user guide: what fits beside what."""

from collections import Counter
from itertools import combinations_with_replacement

import pytest

from scheduler.simulation.devices import A100_40GB, MODELS, GpuModel, MigProfile, Partitioning


def taken(partitioning: Partitioning, *placed: tuple[MigProfile, int]) -> Counter[str]:
    """The sum of the counters, memory in Gi."""
    total: Counter[str] = Counter()
    for profile, place in placed:
        for name, amount in profile.counters(place, partitioning.slice_gi).items():
            total[name] += int(amount.removesuffix("Gi"))
    return total


def fits(partitioning: Partitioning, *placed: tuple[MigProfile, int]) -> bool:
    whole = {name: int(amount.removesuffix("Gi")) for name, amount in partitioning.whole.items()}
    return all(amount <= whole.get(name, 0) for name, amount in taken(partitioning, *placed).items())


def most(partitioning: Partitioning, profile: MigProfile) -> int:
    """How many partitions of the profile fit on an empty GPU, tried one place after the other."""
    placed: list[tuple[MigProfile, int]] = []
    for place in profile.places:
        if fits(partitioning, *placed, (profile, place)):
            placed.append((profile, place))
    return len(placed)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.product)
def test_as_many_instances_of_a_profile_fit_as_the_guide_says(model: GpuModel) -> None:
    found = [most(model.partitioning, profile) for profile in model.partitioning.profiles]
    assert found == [7, 1, 4, 3, 2, 1, 1]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.product)
def test_names_say_compute_slices_and_memory(model: GpuModel) -> None:
    for profile in model.partitioning.profiles:
        name = f"{profile.compute}g.{profile.memory * model.partitioning.slice_gi}gb"
        assert profile.name.removesuffix("+me") == name
    assert int(model.partitioning.whole["memory"].removesuffix("Gi")) == model.memory_gi


def test_two_partitions_fit_unless_they_overlap_or_an_engine_is_short() -> None:
    for one, other in combinations_with_replacement(A100_40GB.partitions(), 2):
        slices = [set(range(place, place + profile.memory)) for profile, place in (one, other)]
        engines = sum(profile.compute for profile, _ in (one, other)) <= 7
        extensions = all(profile.jpeg_engines for profile, _ in (one, other))
        assert fits(A100_40GB, one, other) == (not slices[0] & slices[1] and engines and not extensions)
