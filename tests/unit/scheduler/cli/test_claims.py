from collections.abc import Sequence
from datetime import UTC, datetime

import orjson
import pytest

from scheduler.output.report import age, duration
from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import DRIVER, Json, a_claim, a_pod, an_allocated_claim, text_of


def claims(objects: Sequence[Json], *options: str) -> Run:
    return dra("claims", "-", *options, stdin=text_of(*objects))


def reserved(claim: Json, *pods: str) -> Json:
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
    return claim


def states(claim: Json) -> list[str]:
    [found] = orjson.loads(claims([claim], "-o", "json").out)["items"]
    return [str(state) for state in found["states"]]


def test_the_states_are_those_of_kubectl() -> None:
    assert states(a_claim("c")) == ["pending"]
    assert states(an_allocated_claim("c", "gpu-0")) == ["allocated"]
    assert states(reserved(an_allocated_claim("c", "gpu-0"), "p")) == ["allocated", "reserved"]
    deleted = reserved(an_allocated_claim("c", "gpu-0"), "p")
    deleted["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=0)
    assert states(deleted) == ["deleted", "allocated", "reserved"]


def test_the_node_is_that_of_the_pods_that_use_it() -> None:
    everywhere = reserved(an_allocated_claim("c", "gpu-0"), "p")
    del everywhere["status"]["allocation"]["nodeSelector"]
    pod = a_pod("p", nodeName="node-7", claim="c")
    pod["metadata"]["uid"] = "uid-p"
    assert claims([everywhere, pod]).out.splitlines()[1].split()[4:6] == ["node-7", "pod/p"]
    assert claims([everywhere]).out.splitlines()[1].split()[4:6] == ["(any)", "pod/p"]


def test_a_line_names_some_devices_and_users_and_json_all() -> None:
    names = [f"gpu-{number}" for number in range(6)]
    claim = reserved(an_allocated_claim("c", *names), "p1", "p2", "p3", "p4")
    run = claims([claim])
    assert f"{DRIVER}/node-1/gpu-3 + 2 more" in run.out
    assert "pod/p1,pod/p2,pod/p3 + 1 more" in run.out
    [found] = orjson.loads(claims([claim], "-o", "json").out)["items"]
    assert [one["device"] for one in found["devices"]] == names
    assert found["usedBy"] == ["pod/p1", "pod/p2", "pod/p3", "pod/p4"]


def test_only_the_claims_of_a_namespace() -> None:
    objects = [a_claim("a"), a_claim("b", namespace="ml")]
    assert [line.split()[:2] for line in claims(objects, "-n", "ml").out.splitlines()[1:]] == [["ml", "b"]]
    run = claims(objects, "-n", "absent")
    assert (run.code, run.out) == (0, "")
    assert run.err.endswith("there is no ResourceClaim in namespace absent\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * 60 + 5, "9m5s"),
        (10 * 60 + 5, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (7 * 3600 + 61, "7h1m"),
        (8 * 3600 + 61, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (7 * 86400 + 3600, "7d1h"),
        (8 * 86400 + 3600, "8d"),
        (729 * 86400, "729d"),
        (731 * 86400, "2y1d"),
        (3000 * 86400, "8y"),
    ],
)
def test_a_duration_is_written_as_kubectl_does(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_an_age_counts_from_the_time_stamp() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert age("2026-01-01T00:00:00Z", now) == "24h"
    assert age("2026-01-01T01:00:00+01:00", now) == "24h"
    assert age("", now) == "<unknown>"
