"""Each trap in kube-scheduler's configuration is found where it stands, with its consequence, and none elsewhere."""

from typing import Any

import pytest

from allocator.gates import RELEASES, V1_36, V1_37, V1_38, Features, Release
from scheduler.cli.cluster_source import gates_of
from scheduler.extender.configuration import Mode
from scheduler.kube_scheduler.conversion import document, flags
from scheduler.kube_scheduler.traps import Severity
from tests.unit.scheduler.extender.setups import OFF, a_document, a_setup, found, places, profiles
from tests.unit.scheduler.manifests import Json

ADVISORY = Mode.ADVISORY


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("url", ["https://extender:9443/v1", "http://127.0.0.1:9443/v1", "http://[::1]:9443/v1"])
def test_what_is_written_has_no_trap(mode: Mode, url: str) -> None:
    raw = document(a_setup(mode, "a", "b", url=url))
    assert found(raw, gates={}) == []


def test_gate_has_to_be_off_only_where_the_extender_allocates() -> None:
    assert flags(a_setup(release=V1_36)) == ["--feature-gates=DRAExtendedResource=false"]
    assert flags(a_setup(ADVISORY, release=V1_36)) == []


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda one: one.name)
def test_no_flag_names_a_gate_that_the_release_lacks_or_has_locked(mode: Mode, release: Release) -> None:
    started = flags(a_setup(mode, release=release))
    named = {gate: is_on for flag in started for gate, is_on in gates_of(flag.partition("=")[2]).items()}
    assert Features.of(release.name, named)  # raises where a component would not start
    assert found(document(a_setup(mode, release=release)), gates=named, release=release) == []


@pytest.mark.parametrize(
    ("release", "gate", "is_on", "problem"),
    [
        (V1_37, "DRAExtendedResource", False, "1.37 has locked the gate to the other value"),
        (V1_38, "DRAPartitionableDevices", False, "1.38 has locked the gate to the other value"),
        (V1_36, "DRADerivedAttributes", True, "1.36 does not have the gate, which came with 1.37"),
    ],
    ids=lambda value: getattr(value, "name", str(value)),  # a release has sets, whose order differs by process
)
def test_gate_with_which_the_release_does_not_start_is_found(
    release: Release, gate: str, *, is_on: bool, problem: str
) -> None:
    gates = {gate: is_on, **({"DRAExtendedResource": False} if release is V1_36 else {})}
    (trap,) = found(a_document(), gates=gates, release=release)
    assert (trap.severity, trap.path, trap.value) == ("error", f"--feature-gates {gate}", is_on)
    assert trap.consequence == f"kube-scheduler does not start: Kubernetes {problem}"


@pytest.mark.parametrize(
    ("fields", "finding"),
    [
        ({"ignorable": True}, ("error", "ignorable", True)),
        ({"nodeCacheCapable": False}, ("warning", "nodeCacheCapable", False)),
        ({"nodeCacheCapable": None}, ("warning", "nodeCacheCapable", None)),
        ({"managedResources": [{"name": "x.io/gpu"}]}, ("error", "managedResources", "x.io/gpu")),
        ({"weight": 0}, ("error", "weight", 0)),
        ({"weight": None}, ("error", "weight", None)),
        ({"httpTimeout": None}, ("warning", "httpTimeout", None)),
        ({"httpTimeout": "0s"}, ("warning", "httpTimeout", "0s")),
        ({"httpTimeout": "9.999s"}, ("warning", "httpTimeout", "9.999s")),
        ({"filterVerb": None}, ("warning", "filterVerb", None)),
        ({"prioritizeVerb": "Prioritize"}, ("warning", "prioritizeVerb", "Prioritize")),
        ({"preemptVerb": None}, ("warning", "preemptVerb", None)),
        ({"bindVerb": "Bind"}, ("warning", "bindVerb", "Bind")),
        ({"urlPrefix": "http://extender:80/v1"}, ("error", "urlPrefix", "http://extender:80/v1")),
        ({"urlPrefix": "extender:9443/v1"}, ("error", "urlPrefix", "extender:9443/v1")),
        ({"urlPrefix": None}, ("error", "urlPrefix", None)),
        ({"urlPrefix": "https://[::1/v1"}, ("error", "urlPrefix", "https://[::1/v1")),
        ({"urlPrefix": "https://extender:port/v1"}, ("error", "urlPrefix", "https://extender:port/v1")),
        ({"tlsConfig": {"certFile": "c", "keyFile": "k"}}, ("error", "tlsConfig.caFile", None)),
        ({"tlsConfig": {"caFile": "a"}}, ("warning", "tlsConfig.certFile", None)),
        ({"tlsConfig": {"caData": "YQ==", "certFile": "c"}}, ("warning", "tlsConfig.certFile", None)),
        (
            {"tlsConfig": {"insecure": True, "certFile": "c", "keyFile": "k"}},
            ("error", "tlsConfig.insecure", True),
        ),
    ],
    ids=str,
)
def test_field_of_the_extender_is_found(fields: Json, finding: tuple[str, str, object]) -> None:
    severity, field, value = finding
    assert places(a_document(extender=fields)) == [(severity, f"extenders[0].{field}", value)]


@pytest.mark.parametrize(
    "fields",
    [
        {"httpTimeout": "10s"},
        {"httpTimeout": "1m0.5s"},
        {"prioritizeVerb": None, "weight": None},
        {"tlsConfig": {"caData": "YQ==", "certData": "YQ==", "keyData": "YQ=="}},
        # Without enableHTTPS the authorities of the machine vouch for it.
        {"enableHTTPS": False, "tlsConfig": {"certFile": "c", "keyFile": "k"}},
    ],
    ids=str,
)
def test_what_works_is_no_trap(fields: Json) -> None:
    assert places(a_document(extender=fields)) == []


@pytest.mark.parametrize(
    ("fields", "findings"),
    [
        ({"ignorable": False}, [("warning", "extenders[0].ignorable", False)]),
        ({"ignorable": None}, [("warning", "extenders[0].ignorable", None)]),
        ({"preemptVerb": "preempt"}, [("warning", "extenders[0].preemptVerb", "preempt")]),
        ({"filterVerb": None, "prioritizeVerb": None}, [("warning", "extenders[0]", None)]),
        ({"managedResources": [{"name": "x.io/gpu"}]}, [("warning", "extenders[0].managedResources", "x.io/gpu")]),
        ({"httpTimeout": None}, []),
        ({"filterVerb": None}, []),
        ({"prioritizeVerb": None, "weight": None}, []),
    ],
    ids=str,
)
def test_who_only_advises_has_other_traps(fields: Json, findings: list[tuple[str, str, object]]) -> None:
    assert places(a_document(ADVISORY, extender=fields)) == findings


@pytest.mark.parametrize(
    ("plugins", "severity", "reported"),
    [
        ({}, "error", "profile b has DynamicResources on: it allocates"),
        ({"multiPoint": {"disabled": [{"name": "NodePorts"}]}}, "error", "on: it allocates"),
        (
            {"preBind": {"disabled": [{"name": "*"}]}},
            "error",
            "on at preEnqueue, preFilter, filter, postFilter, score, r",
        ),
        ({**OFF, "reserve": {"enabled": [{"name": "DynamicResources"}]}}, "error", "on at reserve: it allocates"),
        ({**OFF, "filter": {"enabled": [{"name": "DynamicResources"}]}}, "warning", "on at filter: it refuses nodes"),
        (
            {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "DynamicResources"}]}},
            "error",
            "on: it allocates",
        ),
    ],
    ids=str,
)
def test_plugin_that_allocates_beside_the_extender_is_found(plugins: Json, severity: str, reported: str) -> None:
    (trap,) = found(a_document(profiles=profiles(OFF, plugins)))
    assert (trap.severity, trap.path) == (severity, "profiles[1].plugins")
    assert reported in trap.consequence
    assert "multiPoint: {disabled: [{name: DynamicResources}]}" in trap.remedy


@pytest.mark.parametrize(
    "plugins",
    [
        OFF,
        {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodePorts"}]}},
        {
            point: {"disabled": [{"name": "DynamicResources"}]}
            for point in ("preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind")
        },
    ],
    ids=str,
)
def test_plugin_may_be_switched_off_in_several_ways(plugins: Json) -> None:
    assert places(a_document(profiles=profiles(plugins))) == []


def test_profile_that_is_there_by_default_has_the_plugin_on() -> None:
    raw = a_document(profiles=None, leaderElection=None)
    assert ("error", "profiles", None) in places(raw)


@pytest.mark.parametrize(
    ("plugins", "reported"),
    [
        (OFF, "profile a has DynamicResources off, and no extender has a bindVerb: nothing allocates"),
        ({"reserve": {"disabled": [{"name": "*"}]}}, "off at reserve"),
    ],
    ids=str,
)
def test_nobody_who_allocates_is_found(plugins: Json, reported: str) -> None:
    (trap,) = found(a_document(ADVISORY, profiles=profiles(plugins)))
    assert (trap.severity, trap.path) == ("error", "profiles[0].plugins")
    assert reported in trap.consequence


def test_plugin_without_its_score_still_allocates() -> None:
    plugins = {"score": {"disabled": [{"name": "DynamicResources"}]}}
    assert places(a_document(ADVISORY, profiles=profiles(plugins))) == []


@pytest.mark.parametrize(
    ("gates", "value"),
    [({}, None), ({"DRAExtendedResource": True}, True), ({"DRAExtendedResource": True, "AllBeta": False}, True)],
    ids=str,
)
def test_extended_resources_left_on_are_found(gates: dict[str, bool], value: object) -> None:
    assert places(a_document(), gates=gates, release=V1_36) == [("error", "--feature-gates DRAExtendedResource", value)]


@pytest.mark.parametrize("gates", [None, {"DRAExtendedResource": False}, {"AllBeta": False}], ids=str)
def test_extended_resources_that_are_off_or_not_known_are_no_finding(gates: dict[str, bool] | None) -> None:
    assert places(a_document(), gates=gates, release=V1_36) == []


def test_extended_resources_are_the_plugins_own_where_it_allocates() -> None:
    assert places(a_document(ADVISORY), gates={"DRAExtendedResource": True}, release=V1_36) == []


@pytest.mark.parametrize(
    ("everywhere", "own", "expected"),
    [
        (100, [None, None], []),
        (100, [100, None], []),
        (None, [100, 100], []),
        (None, [100, None], [("percentageOfNodesToScore", None)]),
        (0, [None, None], [("percentageOfNodesToScore", 0)]),
        (50, [None, 0], [("percentageOfNodesToScore", 50), ("profiles[1].percentageOfNodesToScore", 0)]),
        (100, [99, 100], [("profiles[0].percentageOfNodesToScore", 99)]),
    ],
)
@pytest.mark.parametrize("mode", Mode)
def test_sampling_is_found_where_it_stands(
    mode: Mode, everywhere: int | None, own: list[int | None], expected: list[tuple[str, object]]
) -> None:
    plugins: Json = OFF if mode is Mode.AUTHORITATIVE else {}
    listed: list[Json] = profiles(plugins, plugins)
    for profile, percentage in zip(listed, own, strict=True):
        profile["percentageOfNodesToScore"] = percentage
    raw = a_document(mode, percentageOfNodesToScore=everywhere, profiles=listed)
    assert places(raw) == [("warning", path, value) for path, value in expected]


@pytest.mark.parametrize("mode", Mode)
def test_sampling_makes_pods_unschedulable_where_the_extender_alone_knows_the_devices(mode: Mode) -> None:
    plugins: Json = OFF if mode is Mode.AUTHORITATIVE else {}
    (trap,) = found(a_document(mode, percentageOfNodesToScore=50, profiles=profiles(plugins)))
    assert ("unschedulable" in trap.consequence) == (mode is Mode.AUTHORITATIVE)


def several(*extenders: dict[str, Any]) -> Json:
    raw = a_document()
    (ours,) = raw["extenders"]
    return {**raw, "extenders": [ours, *extenders]}


def test_second_extender_that_binds_is_found() -> None:
    raw = several({"urlPrefix": "https://other/x", "bindVerb": "b"})
    assert places(raw) == [("error", "extenders", "extenders[0], extenders[1]")]


def test_second_entry_of_ours_is_found() -> None:
    raw = several({"urlPrefix": "https://EXTENDER:9443/v2", "filterVerb": "filter"})
    assert places(raw) == [("warning", "extenders[1].urlPrefix", "https://EXTENDER:9443/v2")]


def test_another_extender_is_not_judged() -> None:
    assert places(several({"urlPrefix": "http://other/x", "ignorable": True, "filterVerb": "f"})) == []


def test_entry_is_judged_that_is_asked_for() -> None:
    raw = several({"urlPrefix": "http://other/x", "prioritizeVerb": "prioritize", "ignorable": True})
    assert ("error", "extenders[1].weight", None) in places(raw, number=1)


@pytest.mark.parametrize(
    ("election", "finding"),
    [
        (None, [("warning", "leaderElection.resourceName", None)]),
        ({"resourceName": "kube-scheduler"}, [("warning", "leaderElection.resourceName", "kube-scheduler")]),
        ({"leaderElect": False}, []),
        ({"resourceName": "own"}, []),
    ],
    ids=str,
)
def test_second_kube_scheduler_needs_a_lease_of_its_own(election: Json | None, finding: list[Any]) -> None:
    assert places(a_document(leaderElection=election)) == finding


def test_clusters_own_kube_scheduler_keeps_its_lease_and_depends_on_the_extender() -> None:
    raw = document(a_setup(Mode.AUTHORITATIVE, "a", "default-scheduler"))
    assert "leaderElection" not in raw
    assert places(raw) == [("warning", "profiles[1].schedulerName", "default-scheduler")]


def test_clusters_own_kube_scheduler_may_be_advised() -> None:
    assert places(document(a_setup(ADVISORY, "default-scheduler"))) == []


def test_errors_come_first() -> None:
    severities = [trap.severity for trap in found(a_document(extender={"nodeCacheCapable": False, "weight": 0}))]
    assert severities == [Severity.ERROR, Severity.WARNING]
