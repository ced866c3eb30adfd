"""Each alert fires when it should, and none in a healthy cluster: promtool evaluates the rules over alerts.yaml.

Go builds promtool once, from the module in this folder.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.binaries import Unavailable, program_of

pytestmark = pytest.mark.depends_on("manifests/monitoring", "tests/monitoring")

HERE = Path(__file__).parent
RULE = HERE.parents[1] / "manifests" / "monitoring" / "prometheus-rule.yaml"
PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"
GROUPS = yaml.safe_load(RULE.read_text())["spec"]
CASES = yaml.safe_load((HERE / "alerts.yaml").read_text())["tests"]


@pytest.fixture(scope="module")
def promtool() -> Path:
    arguments = [
        "-mod=readonly",
        "-trimpath",
        "-tags=remove_all_sd",
        "-ldflags=-s -w",
        PACKAGE,
    ]  # no discovery: smaller
    try:
        return program_of(HERE, "promtool", arguments, os.environ, lambda _: None)
    except Unavailable as error:
        pytest.skip(f"the alert rules are not evaluated: {error}")


def judged(promtool: Path, folder: Path, groups: Any) -> subprocess.CompletedProcess[str]:
    (folder / "rules.yaml").write_text(yaml.safe_dump(groups))
    (folder / "alerts.yaml").write_text((HERE / "alerts.yaml").read_text())
    command: list[str | Path] = [promtool, "test", "rules", "alerts.yaml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_each_alert_is_tried() -> None:
    assert {rule["alert"] for group in GROUPS["groups"] for rule in group["rules"]} < {case["name"] for case in CASES}


def test_alerts_fire_when_they_should(promtool: Path, tmp_path: Path) -> None:
    result = judged(promtool, tmp_path, GROUPS)
    assert result.returncode == 0, result.stdout + result.stderr


def test_rules_are_well_formed(promtool: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(GROUPS))
    subprocess.run([promtool, "check", "rules", "--lint=all", "--lint-fatal", tmp_path / "rules.yaml"], check=True)


@pytest.mark.parametrize("place", [(0, 2), (2, 0)])
def test_alert_that_never_fires_is_noticed(promtool: Path, tmp_path: Path, place: tuple[int, int]) -> None:
    groups = yaml.safe_load(RULE.read_text())["spec"]
    rule = groups["groups"][place[0]]["rules"][place[1]]
    rule["expr"] = "vector(0) > 1"
    assert rule["alert"] in judged(promtool, tmp_path, groups).stderr
