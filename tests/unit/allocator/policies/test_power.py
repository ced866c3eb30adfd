"""What hardware draws, the policy power, and power beside another policy."""

import pytest

from allocator.policies import UnknownPolicy, policy_of
from allocator.policies.power import PUBLISHED, CpuModel, HardwarePower, Power, Watts, WithPower, node_power, rise
from allocator.policies.whole_nodes import FreeResources, PodNeeds, UnitPick, UnitRequest
from scheduler.node_policies.scores import _normalized
from scheduler.simulation.compare import METRICS
from tests.builders import a_device, a_node, a_slice, a_snapshot

T4 = PUBLISHED.gpus["T4"]
TWO_T4 = HardwarePower((T4, T4), 96_000, PUBLISHED.cpus["T4"])


def test_a_gpu_and_a_socket_draw_full_power_as_soon_as_anything_is_there() -> None:
    assert TWO_T4.watts(96_000, (1000, 1000)) == 2 * 10 + 2 * 20  # 48 cores are two sockets of 24
    assert TWO_T4.watts(96_000, (999, 1000)) == 70 + 10 + 2 * 20
    assert TWO_T4.watts(95_999, (1000, 1000)) == 2 * 10 + 165 + 20
    assert TWO_T4.watts(48_000, (0, 0)) == 2 * 70 + 165 + 20
    assert TWO_T4.watts(47_999, (0, 0)) == 2 * 70 + 2 * 165
    assert HardwarePower((), 52_000, CpuModel(Watts(20, 205), 26)).watts(0, ()) == 205


def test_models_are_read_from_devices_and_one_unknown_model_leaves_the_node_out() -> None:
    def of(*models: str) -> HardwarePower | None:
        devices = [a_device(f"gpu-{n}", {"model": model}) for n, model in enumerate(models)]
        snapshot = a_snapshot(a_slice(*devices))
        return node_power(snapshot.view(a_node()), 96_000)

    assert of("T4", "T4") == TWO_T4
    assert of("T4", "H200") is None
    assert of() == HardwarePower((), 96_000, PUBLISHED.cpu_alone)


def needs(amount: int, cpu: int = 0) -> PodNeeds:
    return PodNeeds("pod", cpu, 0, (UnitRequest(1, (amount, amount)),))


def free(*units: int, cpu: int = 96_000, power: HardwarePower | None = TWO_T4) -> FreeResources:
    return FreeResources("node", cpu, 0, units, power=power)


def test_a_part_goes_to_the_gpu_and_the_node_where_least_is_switched_on() -> None:
    policy = Power()
    assert policy.picks(needs(400), free(1000, 500)) == [UnitPick(1, 400)]
    assert policy.score_node(needs(400), free(1000, 500)) == 0
    assert policy.score_node(needs(600), free(1000, 500)) == -60
    assert policy.score_node(needs(400, cpu=1), free(1000, 500)) == -145
    assert policy.score_node(needs(600), free(1000, 500, power=None)) == 0
    assert rise(needs(600), free(1000, 1000), [UnitPick(0, 600)]) == 60


def test_power_can_be_added_to_a_policy_that_scores_whole_nodes() -> None:
    both = policy_of("fgd+power:0.3")
    assert isinstance(both, WithPower)
    assert both.name == "fgd+power:0.3"
    assert [weight for weight, _ in both.weighted] == pytest.approx([0.7, 0.3])
    assert policy_of("best-fit+power").name == "best-fit+power:0.1"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fgd+pack", "'pack' cannot be added to a policy: only power[:WEIGHT] can"),
        ("pack+power", "power cannot be added to pack: it does not look at whole nodes one by one"),
        ("fill-value+power", "power cannot be added to fill-value"),
        ("fgd+power:1", "weight '1' of power is not a number between 0 and 1"),
        ("fgd+power:x", "weight 'x' of power is not a number between 0 and 1"),
        ("fdg+power", "'fdg' is not among the policies"),
    ],
)
def test_what_cannot_be_combined_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnknownPolicy) as refused:
        policy_of(text)
    assert problem in str(refused.value)


def test_scores_are_brought_to_0_to_100_and_to_100_where_all_are_equal() -> None:
    import numpy as np

    assert _normalized(np.array([-60.0, 0.0, -20.0])).tolist() == [0.0, 100.0, 66.0]
    assert _normalized(np.array([5.0, 5.0])).tolist() == [100.0, 100.0]


def test_watts_are_a_curve() -> None:
    assert METRICS["watts"] == "watts"
