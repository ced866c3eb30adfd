"""The configuration is read strictly, flags have the last word, and every error says where and what."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from scheduler.extender.configuration import ExtenderConfiguration
from scheduler.guard.configuration import GuardConfiguration
from scheduler.input.documents import Finding, read
from scheduler.input.yaml_1_1 import dump
from scheduler.runtime.configuration import (
    Common,
    Configuration,
    InvalidConfiguration,
    LogFormat,
    LogLevel,
    host_and_port,
    load,
)

HEAD = "apiVersion: dra-scheduler.dev/v1alpha1\nkind: DraSchedulerConfiguration\n"
ROOT = Path(__file__).resolve().parents[4]


def stored(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + text)
    return path


def problem(path: Path | None, flags: Mapping[str, object]) -> str:
    """What is wrong, in one line."""
    with pytest.raises(InvalidConfiguration) as invalid:
        load(Configuration, path, flags)
    (only,) = invalid.value.problems
    return only


def test_without_a_file_all_has_its_default() -> None:
    assert load(Configuration, None, {}) == Configuration()
    assert Configuration().scheduler_name == "dra-scheduler"
    assert Configuration().health_address.startswith("127.0.0.1:")
    assert Configuration().logging.format is LogFormat.AUTO


def test_flags_go_before_the_file_and_leave_the_rest_of_a_section(tmp_path: Path) -> None:
    path = stored(tmp_path, "schedulerName: mine\npolicy: pack\nlogging: {format: json, level: debug}\n")
    found = load(Configuration, path, {"policy": "spread", "logging": {"level": "error"}})
    assert (found.scheduler_name, found.policy) == ("mine", "spread")
    assert (found.logging.format, found.logging.level) == (LogFormat.JSON, LogLevel.ERROR)


def test_printed_configuration_is_read_as_the_same(tmp_path: Path) -> None:
    first = load(
        Configuration, stored(tmp_path, "featureGates: {DRADeviceTaintRules: true}\nbindingTimeoutSeconds: 30\n"), {}
    )
    (tmp_path / "printed.yaml").write_text(dump(first.document()))
    assert load(Configuration, tmp_path / "printed.yaml", {}) == first


def test_json_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraSchedulerConfiguration", "dryRun": true}')
    assert load(Configuration, path, {}).dry_run


def test_unknown_field_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = stored(tmp_path, "polcy: pack\n")
    assert problem(path, {}) == f'{path}: polcy: unknown field (got "pack")'


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    path = stored(tmp_path, "policy: best\nbindingConcurrency: 0\nhealthAddress: localhost\ndryRun: maybe\n")
    with pytest.raises(InvalidConfiguration) as invalid:
        load(Configuration, path, {})
    fields = [found.removeprefix(f"{path}: ").partition(":")[0] for found in invalid.value.problems]
    assert fields == ["healthAddress", "policy", "bindingConcurrency", "dryRun"]


@pytest.mark.parametrize(
    ("field", "value", "reported"),
    [
        ("policy", "pack:a/b", "policy pack takes no attributes"),
        ("schedulerName", "Mine!", "must"),
        ("kubernetes", "1.20", "must be a known release: one of 1.34, 1.35, 1.36, 1.37"),
        ("healthAddress", "0.0.0.0:99999", "must be HOST:PORT"),
        ("bindingTimeoutSeconds", 0.5, "must be at least 1 (got 0.5)"),
        ("bindingTimeoutSeconds", 1e300, "must be at most 9223372036 (got 1e+300)"),
        ("bindingTimeoutSeconds", float("inf"), "must be at most 9223372036 (got inf)"),
        ("podMaxBackoffSeconds", 0.5, "must not be less than podInitialBackoffSeconds (1)"),
        ("featureGates", {"DRASomething": True}, "no known release of Kubernetes has DRASomething"),
        ("logging", {"level": "loud"}, "'debug', 'info', 'warning' or 'error'"),
        ("kind", "KubeSchedulerConfiguration", "DraSchedulerConfiguration"),
        ("leaderElection", {"leaseDurationSeconds": 10}, "must be greater than renewDeadlineSeconds (10) (got 10)"),
        (
            "leaderElection",
            {"renewDeadlineSeconds": 2.4},
            "must be greater than retryPeriodSeconds (2) times 1.2 (got 2.4)",
        ),
        ("leaderElection", {"leaseDurationSeconds": 12.5}, "leaseDurationSeconds: "),
        ("leaderElection", {"retryPeriodSeconds": 0}, "retryPeriodSeconds: "),
        ("leaderElection", {"resourceName": "A_b"}, "resourceName: must be a DNS subdomain"),
        ("leaderElection", {"resourceNamespace": "a.b"}, "resourceNamespace: must be a DNS label"),
        ("leaderElection", {"leaderElects": True}, "leaderElects: unknown field"),
    ],
)
def test_value_out_of_range_is_reported_with_its_field(field: str, value: object, reported: str) -> None:
    found = problem(None, {field: value})
    assert found.startswith(f"flags: {field}")
    assert reported in found


def test_gates_are_held_to_the_release_where_it_is_said() -> None:
    later = {"DRADerivedAttributes": True}
    assert load(Configuration, None, {"featureGates": later}).feature_gates == later
    assert "Kubernetes 1.34 has no gate" in problem(None, {"featureGates": later, "kubernetes": "1.34"})


def test_address_may_be_of_ipv6_and_its_port_any_free_one() -> None:
    for address in ("[::]:10260", "127.0.0.1:0"):
        assert load(Configuration, None, {"healthAddress": address}).health_address == address


def test_file_of_another_kind_or_none_or_several_objects_is_refused(tmp_path: Path) -> None:
    assert "No such file" in problem(tmp_path / "absent.yaml", {})
    assert "holds 2 objects" in problem(stored(tmp_path, f"---\n{HEAD}"), {})
    bare = tmp_path / "bare.yaml"
    bare.write_text("policy: pack\napiVersion: dra-scheduler.dev/v1alpha1\n")
    assert problem(bare, {}) == f"{bare}: kind: is required"


def test_configuration_of_the_manifests_is_valid() -> None:
    assert load(Configuration, ROOT / "manifests" / "base" / "config.yaml", {}).health_address == "0.0.0.0:10260"


def test_document_is_one_object_of_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "printed.yaml"
    path.write_text(dump(Configuration().document()))
    (found,) = read([str(path)])
    assert not isinstance(found, Finding)
    assert found.raw["kind"] == "DraSchedulerConfiguration"


def test_address_of_ipv6_loses_its_brackets() -> None:
    assert host_and_port("[::1]:10260") == ("::1", 10260)
    assert host_and_port("127.0.0.1:0") == ("127.0.0.1", 0)


def test_what_a_file_lacks_may_come_from_a_flag(tmp_path: Path) -> None:
    """As the manifests of the guard have it: only the pod knows its address."""
    path = tmp_path / "guard.yaml"
    path.write_text(
        "{apiVersion: dra-scheduler.dev/v1alpha1, kind: DraGuardConfiguration, publish: {endpointSlice: dra-guard}}"
    )
    assert load(GuardConfiguration, path, {"publish": {"podIp": "10.1.2.3"}}).publish.pod_ip == "10.1.2.3"
    with pytest.raises(InvalidConfiguration) as refused:
        load(GuardConfiguration, path, {"tls": {"certFile": "a"}})
    assert refused.value.problems == (
        "flags: tls.keyFile: is required, since tls.certFile is set",
        f"{path}: publish.podIp: is required, since publish.endpointSlice is set",
    )


@pytest.mark.parametrize(
    ("type_", "folder"),
    [(Configuration, "base"), (GuardConfiguration, "guard/webhook"), (ExtenderConfiguration, "extender/base")],
)
def test_configuration_of_the_manifests_is_valid_with_the_flags_of_the_pod(type_: type[Common], folder: str) -> None:
    flags = {"publish": {"podIp": "10.1.2.3"}} if type_ is GuardConfiguration else {}
    path = ROOT / "manifests" / folder / "config.yaml"
    assert load(type_, path, flags).health_address == "0.0.0.0:10260"


def test_controllers_whose_pods_are_groups_are_named(tmp_path: Path) -> None:
    assert load(Configuration, stored(tmp_path, "groupsOf: [Kueue]\n"), {}).groups_of == ["Kueue"]
    wrong = problem(stored(tmp_path, "groupsOf: [JobSet]\n"), {})
    assert "groupsOf[0]" in wrong
    assert "must be one of LeaderWorkerSet, Kueue" in wrong
