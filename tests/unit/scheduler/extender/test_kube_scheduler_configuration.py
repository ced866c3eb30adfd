"""kube-scheduler's configuration is read as strictly as kube-scheduler reads it."""

import pytest

from scheduler.kube_scheduler.configuration import profiles_of, read, seconds
from tests.unit.scheduler.extender.setups import a_document, configuration
from tests.unit.scheduler.manifests import Json

EVERYTHING: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 16,
    "leaderElection": {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceLock": "leases",
        "resourceName": "a",
        "resourceNamespace": "b",
    },
    "clientConnection": {"kubeconfig": "k", "acceptContentTypes": "", "contentType": "", "qps": 50.5, "burst": 100},
    "enableProfiling": True,
    "enableContentionProfiling": False,
    "percentageOfNodesToScore": 100,
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 10,
    "profiles": [
        {
            "schedulerName": "a",
            "percentageOfNodesToScore": 0,
            "plugins": {
                point: {"enabled": [{"name": "A", "weight": 2}], "disabled": [{"name": "*"}]}
                for point in (
                    *("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve"),
                    *("permit", "preBind", "bind", "postBind", "multiPoint", "placementGenerate", "placementScore"),
                )
            },
            "pluginConfig": [{"name": "A", "args": {"any": ["thing"]}}],
        }
    ],
    "extenders": [
        {
            "urlPrefix": "https://e",
            **dict.fromkeys(("filterVerb", "preemptVerb", "prioritizeVerb", "bindVerb"), "v"),
            "weight": 1,
            "enableHTTPS": True,
            "tlsConfig": {
                "insecure": False,
                **dict.fromkeys(
                    ("serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"), "eA=="
                ),
            },
            "httpTimeout": "1m",
            "nodeCacheCapable": True,
            "managedResources": [{"name": "x.io/a", "ignoredByScheduler": True}],
            "ignorable": False,
        }
    ],
    "delayCacheUntilActive": False,
}
"""Each field of the version."""


def errors_of(raw: Json) -> list[str]:
    found, errors = read(raw)
    assert (found is None) == bool(errors)
    return [str(error) for error in errors]


def test_every_field_of_the_version_is_known() -> None:
    assert errors_of(EVERYTHING) == []


def test_null_is_a_field_that_is_not_there() -> None:
    raw = {field: None for field in EVERYTHING if field not in ("apiVersion", "kind")}
    assert configuration({**EVERYTHING, **raw}) == configuration(
        {field: EVERYTHING[field] for field in EVERYTHING.keys() - raw}
    )


@pytest.mark.parametrize(
    ("raw", "reported"),
    [
        ({**EVERYTHING, "profile": []}, ["profile: unknown field (got a list of 0 entries)"]),
        ({**EVERYTHING, "profile": None}, ["profile: unknown field"]),
        (a_document(extender={"bindverb": "bind"}), ['extenders[0].bindverb: unknown field (got "bind")']),
        (a_document(extender={"enableHttps": True}), ["extenders[0].enableHttps: unknown field (got true)"]),
        (a_document(extender={"httpTimeout": 30}), ["extenders[0].httpTimeout: must be a string (got 30)"]),
        (
            a_document(extender={"httpTimeout": "30"}),
            ['extenders[0].httpTimeout: must be a duration, such as 30s or 1m30s (got "30")'],
        ),
        (a_document(extender={"ignorable": "false"}), ['extenders[0].ignorable: must be true or false (got "false")']),
        (a_document(kind=None), ["kind: is required"]),
        (
            a_document(apiVersion="kubescheduler.config.k8s.io/v2"),
            ["apiVersion: must be 'kubescheduler.config.k8s.io/v1' (got \"kubescheduler.config.k8s.io/v2\")"],
        ),
        (
            a_document(percentageOfNodesToScore=101, parallelism=0),
            [
                "parallelism: must be greater than 0 (got 0)",
                "percentageOfNodesToScore: must be at most 100 (got 101)",
            ],
        ),
        (
            a_document(profiles=[{"schedulerName": "a"}, {}, {"schedulerName": "a"}]),
            [
                "profiles[1].schedulerName: is required",
                'profiles[2].schedulerName: another profile has this name (got "a")',
            ],
        ),
        (a_document(profiles=[{"schedulerName": ""}]), ["profiles[0].schedulerName: is required"]),
    ],
    ids=lambda value: "; ".join(value) if isinstance(value, list) else "",
)
def test_what_kube_scheduler_would_not_read_is_reported_by_field(raw: Json, reported: list[str]) -> None:
    assert errors_of(raw) == reported


@pytest.mark.parametrize("listed", [None, [], [{}], [{"schedulerName": None}]], ids=str)
def test_profile_without_a_name_is_the_default_one(listed: list[Json] | None) -> None:
    assert [one.name for one in profiles_of(configuration(a_document(profiles=listed)))] == ["default-scheduler"]


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("30s", 30), ("1m0.5s", 60.5), ("250ms", 0.25), ("1h", 3600)])
def test_durations_are_read_as_go_writes_them(text: str, expected: float) -> None:
    assert seconds(text) == expected
