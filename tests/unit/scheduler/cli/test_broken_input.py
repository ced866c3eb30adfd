"""Every way of spoiling an input gives a message that a person can act on, never a traceback, and places nothing."""

from pathlib import Path

import orjson
import pytest

from scheduler.input.yaml_1_1 import MAX_DEPTH, MAX_VALUES
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_list,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    a_workload,
    an_allocation,
    an_object,
    text_of,
)


def spoiled(folder: Path, content: str | bytes, *options: str) -> tuple[Run, str]:
    """The run of a whole cluster with a pod, beside the spoiled file, and that file's path."""
    path = folder / "spoiled.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    cluster = saved(folder, *a_cluster(), a_pod("p", template="one"), name="cluster.yaml")
    return dra("allocate", cluster, path, *options), str(path)


def document(*objects: Json) -> str:
    """The spoiled object as the second document of its file."""
    return text_of(a_node("whole"), *objects)


BROKEN_OBJECTS = [
    pytest.param(
        a_claim("c", a_request(count=-1)),
        "ResourceClaim default/c: spec.devices.requests[0].exactly.count: must be at least 1 (got -1)",
        id="a negative count",
    ),
    pytest.param(
        a_claim("c", a_request(count="two")),
        'ResourceClaim default/c: spec.devices.requests[0].exactly.count: must be an integer (got "two")',
        id="a count that is text",
    ),
    pytest.param(
        a_claim("c", a_request(count=2**63)),
        "ResourceClaim default/c: spec.devices.requests[0].exactly.count: must fit into a signed integer of 64 bits",
        id="a count beyond 64 bits",
    ),
    pytest.param(
        a_claim("c", a_request(device_class="")),
        "ResourceClaim default/c: spec.devices.requests[0].exactly.deviceClassName: is required",
        id="no class",
    ),
    pytest.param(
        a_slice("s", devices=[{"name": "gpu-0"}, {"name": "gpu-0"}]),
        'ResourceSlice s: spec.devices[1]: the name must be unique within the slice (got "gpu-0")',
        id="two devices of one name",
    ),
    pytest.param(
        a_slice("s", devices=[{"name": "gpu-0", "capacity": {"memory": {"value": "much"}}}]),
        "ResourceSlice s: spec.devices[0].capacity[memory].value: ",
        id="a quantity that is none",
    ),
    pytest.param(
        {**a_slice("s"), "spec": "none"},
        'ResourceSlice s: spec: must be an object (got "none")',
        id="a spec that is text",
    ),
    pytest.param(
        {**an_object("resource.k8s.io/v1alpha2", "ResourceClass", "old"), "driverName": "x"},
        "ResourceClass old: apiVersion: v1alpha2 is no longer served; it was replaced by a DeviceClass",
        id="a version that is gone",
    ),
    pytest.param(
        a_pod("q", claim="c", priority="high"),
        'Pod default/q: spec.priority: must be an integer (got "high")',
        id="a priority",
    ),
    pytest.param(
        a_pod("q", entries=[{"name": "dev"}]),
        "Pod default/q: spec.resourceClaims[0]: needs exactly one of resourceClaimName and resourceClaimTemplateName",
        id="an entry without a claim",
    ),
    pytest.param(
        a_workload("Deployment", "web", replicas=-3),
        "Deployment default/web: spec.replicas: must not be negative (got -3)",
        id="negative replicas",
    ),
    pytest.param(a_node("n", taints=5), "Node n: spec.taints: must be a list (got 5)", id="taints that are none"),
    pytest.param(
        a_pod("p", metadata={"creationTimestamp": "0001-01-01T00:00:00+14:00"}),
        "Pod default/p: metadata.creationTimestamp: must be a time such as 2026-01-31T12:00:00Z (got",
        id="a year before the first",
    ),
    pytest.param(
        {**a_pod("p"), "status": {"startTime": "yesterday"}},
        'Pod default/p: status.startTime: must be a time such as 2026-01-31T12:00:00Z (got "yesterday")',
        id="a start that is no time",
    ),
    pytest.param({"kind": "Pod"}, "is not a Kubernetes object: apiVersion and kind must be strings", id="no version"),
]


@pytest.mark.parametrize(("raw", "message"), BROKEN_OBJECTS)
def test_a_broken_object_is_reported_with_file_document_object_field_and_value(
    raw: Json, message: str, tmp_path: Path
) -> None:
    run, path = spoiled(tmp_path, document(raw))
    assert (run.code, run.out) == (2, "")
    (error,) = run.errors
    assert error.startswith(f"{path}, document 2: {message}")
    assert run.err.endswith("dra: 1 error in the input; --keep-going uses the rest of it\n")


def test_an_item_of_a_list_is_reported_with_its_position(tmp_path: Path) -> None:
    run, path = spoiled(tmp_path, text_of(a_list(a_node("n"), a_claim("c", a_request(count=0)), 5)))
    assert len(run.errors) == 1
    assert run.errors[0] == f"{path}, document 1, items[2]: is not an object but a number: 5"


BROKEN_TEXTS = [
    pytest.param(
        document() + '---\napiVersion: v1\nkind: "Po', "is not valid YAML or JSON: line 5, column", id="cut YAML"
    ),
    pytest.param(b'{"apiVersion": "v1", "kind": "No', "is not valid YAML or JSON: line 1, column", id="cut JSON"),
    pytest.param("apiVersion: v1\n\tkind: Pod\n", "is not valid YAML or JSON: line 2, column 1:", id="a tab"),
    pytest.param("a: 1\na: 2\n", "line 2, column 1: the key 'a' appears twice in one mapping", id="a key twice"),
    pytest.param("a: .nan\n", "line 1, column 4: .nan is not a finite number", id="no number"),
    pytest.param(b"\x7fELF\x02\x01\x01\x00\x80\xff", "is not UTF-8 text: byte 0x80 at offset 8", id="a binary file"),
    pytest.param(b"PK\x03\x04\x00\x00", "is a zip archive: unpack it first", id="an archive"),
    pytest.param(b"ab\x00\x00", "is not text: a NUL byte at offset 2", id="a NUL byte"),
    pytest.param("[" * 100_000, "nest", id="deep nesting"),
    pytest.param("a: " + "{a: " * 600 + "}" * 600, f"more than {MAX_DEPTH} levels of nesting", id="deep mappings"),
    pytest.param(
        "- &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"- &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        f"its aliases expand to more than {MAX_VALUES} values",
        id="a YAML bomb",
    ),
    pytest.param("hello", 'document 1: is not an object but text: "hello"', id="plain text"),
    pytest.param("<html><body>404</body></html>", 'document 1: is not an object but text: "<html>', id="HTML"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN_TEXTS)
def test_broken_text_is_reported_in_one_line_with_its_file(content: str | bytes, message: str, tmp_path: Path) -> None:
    run, path = spoiled(tmp_path, content)
    assert (run.code, run.out) == (2, "")
    (error,) = run.errors
    assert error.startswith(path)
    assert message in error
    assert len(error) < len(path) + 300


def test_a_path_that_is_not_there_is_reported(tmp_path: Path) -> None:
    run = dra("allocate", saved(tmp_path, *a_cluster()), tmp_path / "none.yaml")
    assert (run.code, run.out) == (2, "")
    assert run.errors == [f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"]


def test_an_object_that_is_there_twice_with_another_content_is_reported_with_both_places(tmp_path: Path) -> None:
    run, path = spoiled(tmp_path, text_of(a_slice(count=5)))
    name = a_slice()["metadata"]["name"]
    first = f"{tmp_path / 'cluster.yaml'}, document 2"
    assert run.errors == [f"{path}, document 1: ResourceSlice {name}: differs from the copy in {first}"]


def test_errors_of_all_files_and_documents_are_reported_together(tmp_path: Path) -> None:
    first = saved(tmp_path, a_claim("c", a_request(count=-1)), a_pod("p", priority=[]), name="first.yaml")
    second = tmp_path / "second.yaml"
    second.write_text("a: [")
    run = dra("allocate", first, second, tmp_path / "none")
    assert [error.partition(": ")[0] for error in run.errors] == [
        f"{first}, document 1",
        f"{first}, document 2",
        f"{second}, document 1",
        str(tmp_path / "none"),
    ]
    assert "dra: 4 errors in the input" in run.err


def test_the_rest_is_used_when_asked_for_and_the_exit_code_stays(tmp_path: Path) -> None:
    run, _ = spoiled(tmp_path, document(a_claim("c", a_request(count=-1))), "--keep-going")
    assert run.code == 2
    assert [line.split()[0] for line in run.out.splitlines()] == ["POD", "default/p"]
    assert len(run.errors) == 1


def test_devices_of_a_claim_with_an_error_are_not_given_again(tmp_path: Path) -> None:
    held = a_claim("held", a_request(count=-1), status={"allocation": an_allocation("gpu-0")})
    objects = saved(tmp_path, *a_cluster(count=1), held, a_pod("p", template="one"))
    run = dra("allocate", objects, "--keep-going")
    assert run.code == 2
    assert "1 is in use (held by default/held)" in run.out


def test_what_was_whole_before_a_cut_is_used_when_asked_for(tmp_path: Path) -> None:
    content = text_of(a_claim("early"), a_claim("late"))
    run, _ = spoiled(tmp_path, content[:-20], "--keep-going")
    assert run.code == 2
    assert "default/early" in run.out
    assert "default/late" not in run.out


# Whole objects that cannot be placed: exit code 1, with the reason


def with_selector(expression: str) -> list[Json]:
    """A class with that selector, and a claim for it."""
    return [a_class("bad", expressions=[expression]), a_claim("c", a_request(device_class="bad"))]


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([a_claim("c", a_request(device_class="none"))], "request gpu: device class none does not exist"),
        ([a_pod("q", template="none")], "claim template default/none does not exist"),
        ([a_pod("q", claim="none")], "claim default/none does not exist"),
        ([a_claim("c", a_request(count=33))], "exceed the limit of 32"),
        (with_selector("device.attributes['x'].y"), "class bad"),
    ],
)
def test_what_cannot_be_placed_says_why(objects: list[Json], reason: str, tmp_path: Path) -> None:
    run = dra("allocate", saved(tmp_path, *a_cluster(), *objects))
    assert run.code == 1
    assert reason in run.out


SELECTOR = "device.driver == 'a' && device.nose"
DOES_NOT_COMPILE = ["1:31: undefined field 'nose'", f" | {SELECTOR}", f" | {'.' * 30}^"]


@pytest.mark.parametrize(
    ("raw", "name", "path"),
    [
        (a_class("bad", expressions=["true", SELECTOR]), "DeviceClass bad", "spec.selectors[1].cel.expression"),
        (
            a_claim("c", a_request(selectors=[{"cel": {"expression": SELECTOR}}])),
            "ResourceClaim default/c",
            "spec.devices.requests[0].exactly.selectors[0].cel.expression",
        ),
        (
            a_claim(
                "c",
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "a", "deviceClassName": "gpu"},
                        {"name": "b", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": SELECTOR}}]},
                    ],
                },
            ),
            "ResourceClaim default/c",
            "spec.devices.requests[0].firstAvailable[1].selectors[0].cel.expression",
        ),
        (
            a_template("unused", a_request(selectors=[{"cel": {"expression": SELECTOR}}])),
            "ResourceClaimTemplate default/unused",
            "spec.spec.devices.requests[0].exactly.selectors[0].cel.expression",
        ),
    ],
)
def test_a_selector_that_does_not_compile_is_an_error_whoever_uses_it(
    raw: Json, name: str, path: str, tmp_path: Path
) -> None:
    run, file = spoiled(tmp_path, document(raw))
    assert run.code == 2
    first, *caret = DOES_NOT_COMPILE
    assert run.err.splitlines()[:3] == [f"error: {file}, document 2: {name}: {path}: does not compile: {first}", *caret]


@pytest.mark.parametrize("expression", ["device.driver ==", "device.nose", "1"])
def test_with_keep_going_the_error_of_a_selector_is_reported_in_one_line_of_the_table(
    expression: str, tmp_path: Path
) -> None:
    run = dra("allocate", saved(tmp_path, *a_cluster(), *with_selector(expression)), "--keep-going")
    assert run.code == 2
    assert len(run.out.splitlines()) == 2
    assert "class bad" in run.out


def test_a_huge_workload_is_reported_with_its_file_and_document(tmp_path: Path) -> None:
    run, path = spoiled(tmp_path, document(a_workload("Deployment", "web", replicas=2**31 - 1)))
    assert f"warning: {path}, document 2: Deployment default/web: asks for 2147483647 pods, and no cluster" in run.err
    assert "default/p " in run.out
    assert run.code == 1


# Ten million letters


HUGE = "x" * 10_000_000

HUGE_VALUES = [
    pytest.param(a_claim("c", a_request(selectors=[{"cel": {"expression": HUGE}}])), id="an expression"),
    pytest.param(a_slice("s", driver=HUGE), id="a driver"),
    pytest.param(a_slice("s", devices=[{"name": HUGE}]), id="a device"),
    pytest.param(a_pod("q", claim="c", priority=HUGE), id="a priority"),
    pytest.param(an_object(f"resource.k8s.io/{HUGE}", "ResourceSlice", "x"), id="a version"),
    pytest.param(a_node("n", labels={HUGE: HUGE}, taints=HUGE), id="a label"),
]

HUGE_NAMES = [
    pytest.param(a_claim(HUGE), id="the name of a claim"),
    pytest.param(a_pod("q", claim=HUGE), id="a claim's name in a pod"),
    pytest.param(a_pod("q", template=HUGE), id="a template's name in a pod"),
    pytest.param(a_pod("q", claim="c", schedulingGates=[{"name": HUGE}]), id="a gate"),
    pytest.param(an_object("v1", HUGE, "x"), id="a kind"),
    pytest.param(an_object("resource.k8s.io/v1", HUGE, "x"), id="a kind of the group"),
]


@pytest.mark.parametrize("raw", HUGE_VALUES)
def test_a_value_of_ten_million_letters_is_reported_in_short(raw: Json, tmp_path: Path) -> None:
    run, _ = spoiled(tmp_path, text_of(raw))
    assert run.code == 2
    assert len(run.out) + len(run.err) < 5000


@pytest.mark.parametrize("raw", HUGE_NAMES)
def test_a_name_of_ten_million_letters_is_reported_in_short(raw: Json, tmp_path: Path) -> None:
    run, _ = spoiled(tmp_path, text_of(raw))
    assert len(run.out) + len(run.err) < 5000


def test_a_file_of_ten_million_letters_is_reported_in_short(tmp_path: Path) -> None:
    run, _ = spoiled(tmp_path, HUGE)
    assert run.code == 2
    assert len(run.err) < 1000


@pytest.mark.parametrize("name", ["Infer_0", "träin-0", "a\nb", "a\x1b[31mb"])
def test_a_pod_of_an_invalid_name_is_reported(name: str, tmp_path: Path) -> None:
    run, path = spoiled(tmp_path, document(a_pod(name, template="one")))
    assert run.code == 2
    (error,) = run.errors
    assert error.startswith(f"{path}, document 2: Pod ")
    assert "metadata.name" in error


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_half_a_character_is_reported(output: str, tmp_path: Path) -> None:
    raw = orjson.dumps(a_pod("q", claim="c", metadata={"annotations": {"a": "HALF"}})).replace(b"HALF", b"\\ud800")
    run, path = spoiled(tmp_path, raw, "-o", output)
    assert run.code == 2
    assert run.errors[0].startswith(path)
