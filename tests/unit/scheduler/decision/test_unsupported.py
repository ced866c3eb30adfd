from typing import Any

import pytest

from scheduler.core_v1.pod import decode_pod
from scheduler.decision.unsupported import unsupported
from tests.unit.scheduler.manifests import Json, a_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def refusal(**spec: Any) -> str:
    pod, errors = decode_pod(a_pod("p", **spec))
    assert not errors
    assert pod is not None
    return unsupported(pod)


def test_a_pod_of_a_group_is_refused() -> None:
    assert refusal(schedulingGroup={"podGroupName": "g"}) == "PodGroup claims unsupported"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {
            "volumes": [
                {"name": kind, kind: {}}
                for kind in ("emptyDir", "configMap", "csi", "persistentVolumeClaim", "ephemeral", "azureDisk", "rbd")
            ]
        },
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
        {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]},
        {"containers": [{"name": "c", "resources": {"limits": {"example.com/plugin": "1"}}}]},
        {"containers": [{"name": "c", "resources": {"limits": {"deviceclass.resource.kubernetes.io/nic": "2"}}}]},
    ],
)
def test_what_places_nothing_or_is_looked_at_is_fine(spec: Json) -> None:
    assert refusal(**spec) == ""
