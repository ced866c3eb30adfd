"""`dra explain` with each policy: nodes that end the attempt, and scores that JSON cannot have as they are."""

import orjson
import pytest

from allocator.policies import NAMES
from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import DRIVER, Json, a_claim, a_class, a_node, a_request, a_slice, text_of


def explained(policy: str, *objects: Json) -> Run:
    return dra("explain", "claim/default/c", "-", "--policy", policy, "-o", "json", stdin=text_of(*objects))


@pytest.mark.parametrize("policy", NAMES)
def test_node_where_the_attempt_ends_is_explained(policy: str) -> None:
    fails = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "x"'}}]
    every = a_request(selectors=fails, allocationMode="All")
    run = explained(policy, a_node(), a_slice(), a_class(), a_claim("c", every))
    assert run.code == 1, run.err
    assert "no such key: model" in orjson.loads(run.out)["node"]["reason"]


@pytest.mark.parametrize("policy", NAMES)
def test_score_of_any_size_is_a_number_in_json(policy: str) -> None:
    """Of two devices, one is cut from counters, and the loss of the other is a whole number of more than 64 bits."""
    drawn = {"name": "gpu-0", "consumesCounters": [{"counterSet": "all", "counters": {"x": {"value": "1"}}}]}
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    counters = a_slice("counters", sharedCounters=[{"name": "all", "counters": {"x": {"value": "4"}}}], pool=pool)
    del counters["spec"]["devices"]
    devices = a_slice("devices", devices=[drawn, {"name": "gpu-1"}], pool=pool)
    run = explained(policy, a_node(), counters, devices, a_class(), a_claim("c", a_request("r"), a_request("s")))
    assert run.code == 0, run.err
    assert all(isinstance(one, int | float) for one in orjson.loads(run.out)["node"]["score"])
