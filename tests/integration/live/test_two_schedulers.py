"""Two of ours for the same pods, and nobody to say which of them leads: no device is ever used twice."""

from tests import extent
from tests.controlplane.ours import WITHOUT_LEASE, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import Json, RestClient
from tests.integration.live.crowd import (
    GPU,
    a_pod,
    await_all_placed,
    await_claims,
    await_placed,
    emptied,
    furnished,
    lose_one_of_two,
    send,
    send_away,
    wrongs,
)
from tests.integration.live.history import History

NODES, DEVICES, PODS, LOAD = (20, 13, 250, 200) if extent.is_nightly() else (20, 5, 95, 80)


fleet = furnished(NODES, DEVICES)
api = emptied()


def test_no_device_is_ever_used_twice_by_what_two_schedulers_place(plane: ControlPlane, api: RestClient) -> None:
    """First there are devices enough for all; then as many pods more come, for what is left until others go."""
    with History(api) as history:
        with scheduler(plane, WITHOUT_LEASE, name="first"), scheduler(plane, WITHOUT_LEASE, name="second"):
            send(plane, pods("early", PODS))
            early = await_placed(api, PODS)
            send(plane, pods("late", PODS))
            await_placed(api, NODES * DEVICES)
            send_away(plane, early)
            await_all_placed(api, PODS)
            await_claims(api, PODS)
        assert wrongs(api) == []
    assert history.wrongs() == []


def test_one_that_dies_under_load_leaves_all_its_pods_to_the_other(plane: ControlPlane, api: RestClient) -> None:
    """kill -9 with pods in every state of theirs; the other one goes on, and is not started again."""
    with History(api) as history:
        lose_one_of_two(plane, api, pods("load", LOAD))
        assert wrongs(api) == []
    assert history.wrongs() == []


def pods(name: str, number: int) -> list[Json]:
    return [a_pod(f"{name}-{one}", GPU) for one in range(number)]
