"""Every command of the pages about simulations runs, and prints what the pages show."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.extent import PRODUCT
from tests.unit.scheduler.documented import DOCS

pytestmark = pytest.mark.depends_on(*PRODUCT, "docs/simulate.md", "docs/simulate-your-cluster.md")

BIN = Path(sys.executable).parent
START = datetime(2026, 3, 2, tzinfo=UTC)


def blocks(page: str) -> list[tuple[str, str]]:
    """Each command with what is printed, until the next one."""
    text = (DOCS / page).read_text()
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed, _, printed = command.partition("\n")
            found.append((typed, printed))
    return found


def run(command: str, folder: Path) -> tuple[str, str]:
    """What it prints to both streams."""
    environment = {**os.environ, "PATH": f"{folder}:{BIN}:{os.environ['PATH']}"}
    found = subprocess.run(  # noqa: S602 - a page says it as a person types it
        command,
        shell=True,
        executable="/bin/bash",
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout, found.stderr


def complaints(err: str) -> list[str]:
    """What is printed to standard error, but for what takes more than a second on a busy machine."""
    return [line for line in err.splitlines() if not line.endswith(" ...")]


def shown(printed: str) -> list[str]:
    return [line.rstrip() for line in printed.splitlines()]


def a_dump(objects: str, trace: str) -> Mapping[str, Any]:
    """The objects of a cluster on which the events of the trace have happened, until the last one arrived."""
    events = [json.loads(line) for line in trace.splitlines()]
    specs = {one["pod"]["metadata"]["name"]: one["pod"]["spec"] for one in events if "pod" in one}
    last = max(one["time"] for one in events)
    pods = [_pod(one, specs, last) for one in events]
    return {"apiVersion": "v1", "kind": "List", "items": [*map(json.loads, objects.splitlines()), *pods]}


def _pod(event: Mapping[str, Any], specs: Mapping[str, Any], last: float) -> Mapping[str, Any]:
    created, ended = event["time"], event["time"] + event["duration"]
    name = event["name"] if "like" in event else event["pod"]["metadata"]["name"]
    spec = specs[event["like"].partition("/")[2] if "like" in event else name]
    metadata = {"name": name, "namespace": "default", "creationTimestamp": _written(created)}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _written(created)}
    state = {"terminated": {"exitCode": 0, "finishedAt": _written(ended)}}
    status = {"phase": "Succeeded", "conditions": [scheduled], "containerStatuses": [{"name": "main", "state": state}]}
    over = {"status": status} if ended < last else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **over}


def _written(seconds: float) -> str:
    return (START + timedelta(seconds=round(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder with a kubectl, which knows a cluster of 6 nodes."""
    made, _ = run("dra generate --nodes 6 --pods 120 --trace day.jsonl --load 0.9", tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps(a_dump(made, (tmp_path / "day.jsonl").read_text())))
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\n[ "$1" = get ] && exec cat {tmp_path}/cluster.json\n')
    kubectl.chmod(0o755)
    return tmp_path


def test_the_page_from_a_dump_to_a_decision(cluster: Path) -> None:
    for command, printed in blocks("simulate-your-cluster.md"):
        out, err = run(command, cluster)
        assert shown(out) == shown(printed), f"{command}\n{out}"
        assert complaints(err) == []
    page = (cluster / "policies.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "best-fit" in page


def test_what_is_generated_is_simulated_as_the_page_of_the_command_shows(tmp_path: Path) -> None:
    """And becomes a page."""
    (generate, _), (simulate, printed), *_ = blocks("simulate.md")
    run(generate, tmp_path)
    out, err = run(simulate, tmp_path)
    assert shown(out) == shown(printed), out
    assert complaints(err) == []
    out, _ = run(f"{simulate} -o html", tmp_path)
    assert out.startswith("<!doctype html>")
    assert out.rstrip().endswith("</html>")
    assert "<script" not in out
