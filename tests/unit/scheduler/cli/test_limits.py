"""Limits of `--config` hold in every command that decides, and docs/limits.md shows what they print."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from scheduler.input.yaml_1_1 import documents
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.cli.test_examples import ROOT, agrees, examples_of, output_of, page_of
from tests.unit.scheduler.output.pages import answer_of, data_of

EXAMPLE = "manifests/examples/limits"
CLUSTER, TEAMS, CONFIG = (f"{EXAMPLE}/{name}.yaml" for name in ("cluster", "teams", "config"))


HALF = """device.driver == "gpu.example.com" && has(device.capacity["gpu.example.com"].memory)
    && device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0""".replace("\n   ", "")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_page_shows_what_the_program_prints() -> None:
    shown = list(examples_of("limits", EXAMPLE))
    assert len(shown) == 3
    for command, lines in shown:
        printed = output_of(command).rstrip("\n").split("\n")
        assert len(printed) == len(lines)
        assert all(agrees(one, other) for one, other in zip(lines, printed, strict=True)), printed


def test_configuration_of_the_page_is_that_of_the_example() -> None:
    first = page_of("limits").partition("```yaml\n")[2].partition("```")[0]
    assert next(documents(first)) == next(documents((ROOT / CONFIG).read_text()))


def items(*arguments: str) -> Any:
    return orjson.loads(dra(*arguments, "-o", "json").out)


def test_fit_counts_limits() -> None:
    subject = "template/students/half"
    assert items("fit", subject, CLUSTER, TEAMS)["copies"] == 2
    found = items("fit", subject, CLUSTER, TEAMS, "--config", CONFIG)
    assert found["copies"] == 1
    assert "limit student-slices: 3 of 4 in use, 3 more requested" in found["next"]["reason"]


def test_whatif_counts_limits_before_and_after() -> None:
    found = dra("whatif", CLUSTER, TEAMS, "--overlay", "drain:a100", "--config", CONFIG).out
    assert "limit vision-h100: 2 of 2 in use, 2 more requested" in found


def test_page_by_limit_leads_with_the_limits_and_shows_how_much_is_in_use() -> None:
    placed = dra("allocate", CLUSTER, TEAMS, "--config", CONFIG, "-o", "yaml").out
    page = dra("status", "--by", "limit", CLUSTER, "-", "--config", CONFIG, "-o", "html", stdin=placed).out
    answer = answer_of(page)
    assert answer[:4] == [
        "2 of 4 limits are used up.",
        "Limit vision-h100: 2 of 2 in use.",
        "Limit gold-memory in namespace vision: 240Gi of 240Gi in use.",
        "Limit student-slices: 3 of 4 in use.",
    ]
    first = data_of(page)["tables"][0]
    assert first["id"] == "limits"
    [part] = first["bar"]["parts"]
    assert [row[part["column"]] for _, rows in first["groups"] for row in rows] == ["100", "0", "100", "75"]
    assert first["bar"]["whole"] == 100


def test_explain_names_the_limit() -> None:
    found = dra("explain", "students/homework-1", CLUSTER, TEAMS, "--config", CONFIG)
    assert "limit student-slices" not in found.out  # as the first pod it fits
    found = dra("explain", "speech/batch", CLUSTER, TEAMS, "--config", CONFIG)
    assert "limit gold-memory: 0 of 240Gi in use, 320Gi more requested" in found.out
    assert "needs 4 devices, and those on node h100 are more than a limit of the namespace leaves" in found.out
    assert "would fit if\n    request gpu: count 3 instead of all" in found.out


def test_simulation_counts_limits() -> None:
    found = dra("simulate", CLUSTER, TEAMS, "--config", CONFIG, "-o", "json")
    [scenario] = orjson.loads(found.out)["scenarios"]
    assert scenario["summary"]["placed"] == 3
    by_tenant = {one["shape"]: one["placed"] for one in scenario["summary"]["namespaces"]}
    assert by_tenant == {"speech": 0, "students": 1, "vision": 2}


def test_status_shows_limits(tmp_path: Path) -> None:
    placed = tmp_path / "placed.yaml"
    placed.write_text(dra("allocate", CLUSTER, TEAMS, "--config", CONFIG, "-o", "yaml").out)
    shown = dra("status", CLUSTER, str(placed), "--by", "limit", "--config", CONFIG).out
    assert [line.split() for line in shown.splitlines()] == [
        ["LIMIT", "NAMESPACE", "USED", "MOST", "%", "SOFT"],
        ["vision-h100", "-", "2", "2", "100", "-"],
        ["gold-memory", "speech", "0", "240Gi", "0", "-"],
        ["gold-memory", "vision", "240Gi", "240Gi", "100", "-"],
        ["student-slices", "-", "3", "4", "75", "-"],
    ]
    page = dra("status", CLUSTER, str(placed), "--by", "limit", "--config", CONFIG, "-o", "html").out
    assert "student-slices" in page
    own = dra("status", CLUSTER, str(placed), "--by", "limit", "--config", CONFIG, "-n", "speech").out
    assert [line.split()[0] for line in own.splitlines()] == ["LIMIT", "gold-memory"]
    none = dra("status", CLUSTER, str(placed), "--by", "limit", "--config", CONFIG, "-n", "nobody")
    assert none.err == "no limit holds in namespace nobody\n"


def test_limit_of_each_namespace_is_shown_for_one_that_nothing_is_known_of(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(LINTED.partition("- ")[0] + "- {name: own, namespaces: {each: true}, most: 3}\n")
    shown = dra("status", CLUSTER, "--by", "limit", "--config", str(config), "-n", "new").out
    assert shown.splitlines()[1].split() == ["own", "new", "0", "3", "0", "-"]


LINTED = """apiVersion: dra-scheduler.dev/v1alpha1
kind: DraSchedulerConfiguration
limits:
- {name: typo, count: {deviceClassName: h200}, most: 3}
- {name: driver, count: {driver: other.example.com}, most: 3}
- {name: nobody, namespaces: {names: [nobody]}, most: 9}
- {name: low, count: {counter: slices, selector: 'device.name == "half-0"'}, most: 2}
- {name: vision, namespaces: {names: [vision]}, most: 3}
"""


def test_lint_finds_limits_that_are_not_as_they_were_meant(tmp_path: Path) -> None:
    config, placed = tmp_path / "config.yaml", tmp_path / "placed.yaml"
    config.write_text(LINTED.replace('device.name == "half-0"', HALF))
    placed.write_text(dra("allocate", CLUSTER, TEAMS, "--config", CONFIG, "-o", "yaml").out)
    results = items("lint", CLUSTER, str(placed), "--config", str(config))["items"]
    assert [(one["rule"], one["object"]["name"], one["message"]) for one in results if "limit" in one["rule"]] == [
        ("limit-selects-nothing", "typo", "device class h200 does not exist"),
        ("limit-selects-nothing", "driver", "it counts no device of the input"),
        ("limit-selects-nothing", "nobody", "no namespace of the input is one of its namespaces"),
        ("limit-never-met", "low", "it allows 2, and no device counts for less than 3"),
        ("limit-exceeded", "low", "limit low is exceeded: 3 of 2 in use"),
        ("limit-exceeded", "vision", "limit vision is exceeded: 4 of 3 in use"),
    ]


def test_lint_has_nothing_against_the_limits_of_the_page() -> None:
    assert "limit-" not in dra("lint", CLUSTER, TEAMS, "--config", CONFIG).out


def test_status_needs_the_configuration_to_show_limits() -> None:
    assert "name it with --config" in dra("status", CLUSTER, "--by", "limit").err


def test_exceeded_soft_limit_is_told(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text((ROOT / CONFIG).read_text().replace("most: 2\n", "most: 1\n  soft: true\n"))
    run = dra("allocate", CLUSTER, TEAMS, "--config", str(config))
    assert "warning: soft limit vision-h100 is exceeded: 2 of 1 in use" in run.err


def test_limits_of_a_config_map_are_not_there_in_files(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: dra-scheduler.dev/v1alpha1\nkind: DraSchedulerConfiguration\n"
    config.write_text(f"{head}limitsConfigMap: a/b\n")
    run = dra("allocate", CLUSTER, TEAMS, "--config", str(config))
    assert f"warning: the limits in ConfigMap a/b are not read, only those of {config}" in run.err
