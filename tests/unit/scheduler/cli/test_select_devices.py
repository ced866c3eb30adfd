"""`dra cel`: what an expression selects, costs and fails on."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

import cel
from allocator.model import Device
from scheduler.cli.select_devices import ask, completed, completions
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import DRIVER, Json, a_cluster, a_slice, text_of

MEMORY = cel.Quantity.of(80)
MODEL = f'device.attributes["{DRIVER}"].model'


def objects() -> list[Json]:
    """Two devices with a model and memory, and one of another driver without."""
    devices = [
        {
            "name": f"gpu-{model}",
            "attributes": {"model": {"string": model}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for model in ("a100", "h100")
    ]
    nics = a_slice(node="node-1", driver="net.example", devices=[{"name": "nic"}])
    return [*a_cluster()[:1], a_slice(devices=devices), nics]


def asked(expression: str, *options: str) -> Run:
    return dra("cel", expression, "-", *options, stdin=text_of(*objects()))


def test_devices_that_match_are_counted_by_driver_and_named() -> None:
    found = asked(f'device.driver == "{DRIVER}" && {MODEL} == "a100"')
    assert found.code == 0
    assert found.out.startswith("1 of 3 devices matches; cost: at most ")
    assert [line.split() for line in found.out.splitlines()[2:5]] == [
        ["DRIVER", "DEVICES", "MATCH", "FAIL"],
        [DRIVER, "2", "1", "0"],
        ["net.example", "1", "0", "0"],
    ]
    assert found.out.splitlines()[-1] == f"{DRIVER}/node-1/gpu-a100"


def test_devices_on_which_it_fails_are_counted_with_the_error() -> None:
    found = asked(f'{MODEL} == "a100"')
    assert "fails on 1 device, first on net.example/node-1/nic: no such key: model" in found.out


def test_a_name_that_no_device_has_is_named_with_what_is_meant() -> None:
    found = asked(f'device.attributes["{DRIVER}"].modell == "a100"')
    assert (found.code, f"no device has {DRIVER}/modell in its attributes" in found.out) == (1, True)
    assert f"did you mean {DRIVER}/model" in found.out


def test_json_has_costs_devices_and_failures() -> None:
    found: Any = orjson.loads(asked(f'{MODEL} == "a100"', "-o", "json").out)
    program = cel.compile(f'{MODEL} == "a100"')
    assert (found["kind"], found["devices"], found["estimatedCost"]) == ("Selection", 3, program.estimated_cost)
    assert found["matching"] == [{"driver": DRIVER, "pool": "node-1", "name": "gpu-a100"}]
    assert [(one["name"], one["error"]) for one in found["failing"]] == [("nic", "no such key: model")]
    assert 0 < found["highestCost"] <= found["estimatedCost"]


def test_what_does_not_compile_is_shown_with_a_caret() -> None:
    found = asked("device.drivr == 'x'")
    assert (found.code, found.out) == (2, "")
    assert "EXPR does not compile: 1:7:" in found.err
    assert found.err.splitlines()[-1].endswith("......^")


def test_lists_are_cut_unless_all_are_asked_for() -> None:
    many = text_of(a_slice(count=12))
    assert "and 2 more" in dra("cel", "true", "-", stdin=many).out
    whole = dra("cel", "true", "-", "--all", stdin=many).out
    assert (whole.count("/gpu-"), "more" in whole) == (12, False)


def test_without_an_expression_a_terminal_is_needed(tmp_path: Path) -> None:
    found = dra("cel", saved(tmp_path, *objects()))
    assert (found.code, "standard input has to be a terminal" in found.err) == (2, True)


def test_without_devices_there_is_nothing_to_ask() -> None:
    found = dra("cel", "true", "-", stdin=text_of(*a_cluster()[:1]))
    assert (found.code, "the input contains no ResourceSlice" in found.err) == (2, True)


def test_namespaces_and_labels_do_not_choose_devices() -> None:
    assert "-n and -l cannot be used" in asked("true", "-n", "ml").err


def test_an_error_does_not_end_the_questions(capsys: pytest.CaptureFixture[str]) -> None:
    ask(["", "device.x", "true"], [], cel.V1_36)
    told = capsys.readouterr()
    assert "undefined field 'x'" in told.err
    assert told.out.startswith("0 of 0 devices match; ")


def test_completions_are_the_names_of_the_devices() -> None:
    device = Device("gpu", DRIVER, "p", {"model": ("string", "a"), "other.io/index": ("int", 1)}, {"memory": MEMORY})
    words = completions([device])
    assert words[2:] == [
        f'device.attributes["{DRIVER}"].model',
        'device.attributes["other.io"].index',
        f'device.capacity["{DRIVER}"].memory',
    ]
    assert completed(words, "device.dr", 0) == "device.driver"
    assert completed(words, "device.dr", 1) is None


def test_on_a_terminal_lines_are_answered_until_the_end(tmp_path: Path) -> None:
    path = saved(tmp_path, *objects())
    ours, theirs = pty.openpty()
    program = "from scheduler.cli.main import main; main()"
    command = [sys.executable, "-c", program, "cel", str(path)]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        os.close(theirs)
        os.write(ours, b'device.driver == "net.example"\n\x04')
        out, err = run.communicate(timeout=60)
    os.close(ours)
    assert run.returncode == 0, err
    assert "1 of 3 devices matches" in out
    assert "3 devices; Tab completes, Ctrl-D ends" in err
