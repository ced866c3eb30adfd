"""A new watched kind is one row and its decoder: watches, cluster, manifests, dumps and redaction follow."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from scheduler import kinds
from scheduler.kinds import KINDS, ObjectKind
from tests.unit.scheduler.made_up_kind import ROW, a_window

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def found() -> Any:
    """What the program with the made-up kind prints."""
    command = [sys.executable, "-m", "tests.unit.scheduler.made_up_kind"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert not run.returncode, run.stderr
    return orjson.loads(run.stdout)


def test_its_row_is_short() -> None:
    assert ROW.count("\n") <= 8


def test_a_watch_of_it_changes_the_cluster_and_wakes_pods(found: Any) -> None:
    assert found["watch"] == [
        [{"night": 3}, 1],
        [{"night": 3}, 1],  # nobody waits for what is the same
        [{"night": 4}, 2],
        [{}, 3],  # one that cannot be read is as one that is gone
        [{"night": 4}, 4],
        [{}, 5],
        ["WindowChanged"],
    ]


def test_a_manifest_of_it_comes_into_the_inventory_and_the_cluster(found: Any) -> None:
    manifest = found["manifest"]
    assert (manifest["inventory"], manifest["cluster"], manifest["skipped"]) == ([["night", 3]], {"night": 3}, {})
    (error,) = manifest["errors"]
    assert "windows.yaml" in error
    assert "Window night" in error
    assert "spec.hours" in error


def test_a_dump_holds_it_and_a_redacted_one_tells_its_kind_but_no_name(found: Any) -> None:
    assert found["dump"] == a_window()
    redacted = found["redacted"]
    assert (redacted["apiVersion"], redacted["kind"]) == ("maintenance.example/v1", "Window")
    assert redacted["spec"] == {"hours": 3}
    assert "night" not in str(redacted)


@pytest.mark.parametrize("kind", [one for one in KINDS if one.is_watched], ids=lambda one: one.name)
def test_each_watched_kind_can_be_read(kind: ObjectKind[Any]) -> None:
    assert callable(kind.watch_decoder)


def test_no_kind_of_storage_is_listed_a_second_time() -> None:
    """Rooms that list kinds would have to be told of a new one."""
    home = Path(kinds.__file__)
    allowed = {home.name, "api_resources.py", "storage_objects.py", "cluster_changes.py", "verify_scheduling.py"}
    listing = {
        path.name
        for path in home.parent.rglob("*.py")
        if path.parent.name != "plugins"  # each is woken by what it looks at
        if len(set(re.findall(r"CSIDriver|CSINode|VolumeAttachment|ReplicationController", path.read_text()))) > 2
    }
    # where storage is kept, and how; the plugin that asks these three
    assert listing <= allowed | {"volumes.py", "node_volume_limits.py"}
