"""`dra extender config` and `check` as a person runs them."""

import json
from pathlib import Path

import pytest

from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import text_of

FLAG = "--feature-gates=DRAExtendedResource=false"
UNKNOWN_GATE = "warning: DRAExtendedResource was not checked: it has to be off; specify --kube-scheduler-flags\n"


OF_1_36 = ("--kubernetes", "1.36")


def written(*arguments: str) -> str:
    run = dra("extender", "config", *arguments)
    assert run.code == 0, run.err
    return run.out


def checked(text: str, *arguments: str) -> Run:
    return dra("extender", "check", "-", *arguments, stdin=text)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--scheduler-name", "a", "--scheduler-name", "b", "--http-timeout", "60", "--weight", "1"),
        ("--mode", "advisory"),
        ("--mode", "advisory", "--scheduler-name", "default-scheduler"),
        ("--url", "http://127.0.0.1:9443/v1"),
        ("--url", "https://10.1.2.3/v1", "--ca-file", "a", "--cert-file", "b", "--key-file", "c"),
    ],
    ids=" ".join,
)
def test_what_config_writes_has_no_finding(arguments: tuple[str, ...]) -> None:
    run = checked(written(*arguments), "--kube-scheduler-flags", "")
    assert (run.code, run.err) == (0, "")
    assert run.out.endswith(": nothing found\n")


def test_flags_are_reported_beside_the_file_and_in_it() -> None:
    run = dra("extender", "config", *OF_1_36)
    assert run.err == f"start kube-scheduler with {FLAG}\n"
    assert run.out.startswith(f"# start kube-scheduler with {FLAG}\napiVersion: ")
    assert dra("extender", "config").err == ""  # later releases have locked the gate
    advisory = dra("extender", "config", "--mode", "advisory", *OF_1_36)
    assert advisory.err == ""
    assert advisory.out.startswith("apiVersion: ")


def test_namespace_is_that_of_the_url_and_of_the_lease() -> None:
    text = written("--namespace", "gpu-system")
    assert "https://dra-extender.gpu-system.svc:9443/v1" in text
    assert "resourceNamespace: gpu-system" in text
    assert "kube-system" not in text


def test_name_that_is_no_namespace_is_refused() -> None:
    run = dra("extender", "config", "--namespace", "A.b")
    assert (run.code, run.out) == (2, "")
    assert "--namespace" in run.err
    assert "'A.b'" in run.err


def test_every_flag_of_config_is_written() -> None:
    files = ("--ca-file", "/a", "--cert-file", "/b", "--key-file", "/c")
    text = written(
        "--url",
        "https://x/v1",
        *files,
        "--http-timeout",
        "7",
        "--weight",
        "3",
        "--scheduler-name",
        "s",
        "--kubeconfig",
        "/k",
    )
    for line in (
        "urlPrefix: https://x/v1",
        "caFile: /a",
        "certFile: /b",
        "keyFile: /c",
        "httpTimeout: 7s",
        "weight: 3",
        "kubeconfig: /k",
    ):
        assert f" {line}\n" in text
    assert "- schedulerName: s\n" in text
    assert "resourceName: s\n" in text


def test_the_policy_is_weighed_only_with_a_weight() -> None:
    assert "prioritizeVerb" not in written()
    assert "weight" not in written()
    assert " prioritizeVerb: prioritize\n" in written("--weight", "3")


def test_plain_http_has_no_certificates() -> None:
    assert "tls" not in written("--url", "http://localhost:9443/v1").lower()


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (
            ("--url", "http://elsewhere/v1"),
            'error: extenders[0].urlPrefix: "http://elsewhere/v1": anyone on the network can',
        ),
        (("--url", "elsewhere"), "dra: nothing was written"),
        (("--ca-file", ""), "error: extenders[0].tlsConfig.caFile: kube-scheduler does not verify"),
        (("--scheduler-name", "A_b"), "must be a DNS subdomain"),
        (("--scheduler-name", "a", "--scheduler-name", "a"), "a profile is named twice"),
        (("--weight", "0"), "0 is not in the range x>=1"),
    ],
    ids=str,
)
def test_what_would_not_work_is_not_written(arguments: tuple[str, ...], reported: str) -> None:
    run = dra("extender", "config", *arguments)
    assert (run.code, run.out) == (2, "")
    assert reported in run.err


def test_what_would_go_wrong_later_is_reported_and_written() -> None:
    run = dra("extender", "config", "--http-timeout", "5")
    assert run.code == 0
    assert 'warning: extenders[0].httpTimeout: "5s": kube-scheduler waits 5s for a bind' in run.err


def test_finding_says_field_value_consequence_and_remedy() -> None:
    run = checked(written().replace("ignorable: false", "ignorable: true"), "--kube-scheduler-flags", "")
    assert (run.code, run.err) == (1, "")
    assert run.out == (
        "error: extenders[0].ignorable: true\n"
        "    when bind fails or is not answered, kube-scheduler binds the pod itself, without its devices\n"
        "    instead: false\n"
        "extenders[0] (authoritative): 1 error\n"
    )


def test_warnings_alone_are_no_failure() -> None:
    run = checked(written().replace("httpTimeout: 30s", "httpTimeout: 1s"), *OF_1_36)
    assert (run.code, run.err) == (0, UNKNOWN_GATE)
    assert run.out.endswith("extenders[0] (authoritative): 1 warning\n")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ("--v=2", 1),
        ("", 1),
        ("--feature-gates=DRAExtendedResource=true", 1),
        ("--feature-gates DRAAdminAccess=true,kube:DRAExtendedResource=false", 0),
        ("--feature-gates=DRAAdminAccess=true --v=2 --feature-gates=DRAExtendedResource=false", 0),
        ("'--feature-gates=AllBeta=false'", 0),
    ],
)
def test_gates_are_those_of_the_flags(flags: str, code: int) -> None:
    run = checked(written(), "--kube-scheduler-flags", flags, *OF_1_36)
    assert (run.code, run.err) == (code, "")


def test_json_has_all_of_it() -> None:
    run = checked(written("--weight", "5").replace("weight: 5", "weight: 0"), "-o", "json", *OF_1_36)
    assert run.code == 1
    assert json.loads(run.out) == {
        "apiVersion": "dra-scheduler.dev/v1alpha1",
        "kind": "KubeSchedulerConfigurationReview",
        "extender": "extenders[0]",
        "mode": "authoritative",
        "findings": [
            {
                "severity": "error",
                "field": "extenders[0].weight",
                "value": 0,
                "consequence": "kube-scheduler does not start: prioritizeVerb requires a weight above 0",
                "remedy": "5",
            }
        ],
        "notJudged": ["DRAExtendedResource"],
    }


SEVERAL = written() + "- urlPrefix: https://other/x\n  filterVerb: f\n"


def test_one_of_several_is_judged_by_its_url() -> None:
    run = checked(SEVERAL, "--url", "https://dra-extender.kube-system.svc:9443/v1")
    assert run.code == 0
    assert run.out == "extenders[0] (authoritative): nothing found\n"


@pytest.mark.parametrize(
    ("text", "arguments", "reported"),
    [
        (SEVERAL, (), "extenders: has 2 entries: select one with --url: https://dra-extender."),
        (SEVERAL, ("--url", "x"), "extenders: none has the urlPrefix x: https://dra-extender."),
        (
            text_of({"apiVersion": "v1", "kind": "Pod"}),
            (),
            "dra: -: kind: must be 'KubeSchedulerConfiguration'",
        ),
        ("kind: KubeSchedulerConfiguration\n", (), "dra: -: apiVersion: is required"),
        (written() + "extender: []\n", (), "dra: -: extender: unknown field"),
        (written().partition("extenders:")[0], (), "extenders: is empty: kube-scheduler calls no extender"),
        (
            written() + "---\n" + written(),
            (),
            "holds 2 objects; it has to hold one, of kind KubeSchedulerConfiguration",
        ),
        (written(), ("--kube-scheduler-flags", "'"), "cannot be split into flags"),
        (written(), ("--kube-scheduler-flags", "--feature-gates=A"), "'A' is not NAME=true or NAME=false"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith(("dra", "ext", "hol", "no", "'")) else "",
)
def test_what_cannot_be_judged_is_bad_input(text: str, arguments: tuple[str, ...], reported: str) -> None:
    run = checked(text, *arguments)
    assert (run.code, run.out) == (2, "")
    assert reported in run.err


def test_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    run = dra("extender", "check", tmp_path / "absent.yaml")
    assert run.code == 2
    assert "absent.yaml: cannot be read: No such file" in run.err


def test_folder_is_bad_input_whatever_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(written())
    run = dra("extender", "check", tmp_path)
    assert run.code == 2
    assert f"{tmp_path}: is a directory; it has to be a file" in run.err
