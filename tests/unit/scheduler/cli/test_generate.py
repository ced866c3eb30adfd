"""`dra generate`: what is written in each form, and what is refused."""

from pathlib import Path

import orjson
import pytest

from scheduler.input.documents import Finding, read
from scheduler.simulation.catalogue import MIXES, PRESETS
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.cli.test_simulation_pages import blocks

SMALL = ("generate", "--preset=mixed", "--nodes=3", "--devices=2", "--pods=5")


def objects(folder: Path, output: str, *options: str) -> list[object]:
    path = folder / "written"
    path.write_text(dra(*SMALL, "-o", output, *options).out)
    found = list(read([str(path)]))
    return [one if isinstance(one, Finding) else one.raw for one in found]


def test_all_forms_say_the_same(tmp_path: Path) -> None:
    lines = [orjson.loads(line) for line in dra(*SMALL).out.splitlines()]
    assert objects(tmp_path, "jsonl") == objects(tmp_path, "json") == objects(tmp_path, "yaml") == lines
    assert orjson.loads(dra(*SMALL, "-o", "json").out) == {"apiVersion": "v1", "kind": "List", "items": lines}


def test_kinds_are_counted_on_standard_error() -> None:
    run = dra("generate", "--preset=gpu", "--nodes=1", "--pods=2", "--shapes=gpu-1=1")
    assert (run.code, run.err) == (0, "1 DeviceClass, 1 Node, 1 ResourceSlice, 1 ResourceClaimTemplate, 2 Pods\n")


@pytest.mark.parametrize("preset", PRESETS)
def test_fleet_and_workload_apart_are_what_they_are_together(preset: str) -> None:
    options = ("generate", f"--preset={preset}", "--devices=4")
    fleet, workload = dra(*options, "--nodes=4", "--pods=0").out, dra(*options, "--nodes=0", "--pods=9").out
    assert dra(*options, "--nodes=4", "--pods=9").out == fleet + workload


def test_allocate_places_what_was_generated() -> None:
    run = dra("allocate", "-", stdin=dra("generate", "--nodes=4", "--shapes=gpu-2=1", "--pods=4").out)
    assert run.code == 0
    assert run.err.endswith("4 of 4 placed\n")
    assert run.out.count("gpu.example.com/node-") == 8


def test_pods_are_in_the_namespace_with_claims_of_their_own() -> None:
    run = dra("generate", "--nodes=0", "--pods=3", "--claims", "-n", "ml", "--shapes=gpu-1=1")
    assert run.err == "3 ResourceClaims, 3 Pods\n"
    assert {orjson.loads(line)["metadata"]["namespace"] for line in run.out.splitlines()} == {"ml"}


def test_the_example_of_docs_generate_md_prints_what_it_shows() -> None:
    [(command, counted), *_] = blocks("generate.md")
    arguments, _, _ = command.partition(" > ")
    run = dra(*arguments.split()[1:])
    assert (run.code, run.err) == (0, counted)


def test_list_names_what_mixes_are_made_of() -> None:
    run = dra("generate", "--list")
    assert run.code == 0
    for word in ("PRESETS", "MACHINES", "mig-a100", "SHAPES", "gpu-half", "--shapes share-8gi=45,"):
        assert word in run.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nodes=0", "--pods=0"], "--nodes and --pods are both 0: nothing to print"),
        (["--machines=gpu-h10=1"], "--machines: 'gpu-h10': no such machine; did you mean gpu-h100"),
        (["--shapes=gpu-8=1"], "--shapes: 'gpu-8': no such shape for nodes with 8 devices"),
        (["--shapes=gpu-1"], "'gpu-1' is not NAME=WEIGHT with a whole number of at most 9 digits as the weight"),
        (["--shapes="], "'' is not NAME=WEIGHT"),
        (["--shapes=gpu-1=1,,gpu-2=1"], "'' is not NAME=WEIGHT"),
        (["--machines=gpu-h100=1000000000"], "a whole number of at most 9 digits"),
        (["--load=0.5"], "--load is for the pods of --trace, which is missing"),
        (["--mean-duration=60"], "--mean-duration is for the pods of --trace, which is missing"),
        (["--trace=-"], "- is not a file: standard output is for the fleet"),
        (["--trace=arrivals", "--load=1e-300", "--mean-duration=1e308"], "pods would arrive every inf s on average"),
        (["--trace=arrivals", "--mean-duration=1e-9"], "s on average; from 0.001 to 1e+09 s is possible"),
        (["--shapes=gpu-1=0.5"], "'gpu-1=0.5' is not NAME=WEIGHT"),
        (["--shapes=gpu-1=1,gpu-1=2"], "'gpu-1' is there twice"),
        (["--shapes=gpu-1=0"], "--shapes: no shape has a weight above 0"),
        (["--devices=65"], "65 is not in the range 1<=x<=64"),
        (["--namespace=Not_a_name"], "'Not_a_name' is no name of a namespace"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: list[str], message: str) -> None:
    run = dra("generate", *options)
    assert run.code == 2
    assert message in run.err
    assert not run.out


@pytest.mark.parametrize("mix", MIXES)
def test_a_mix_of_profiles_has_a_name_and_its_pods_fit_on_both_models(mix: str) -> None:
    generated = dra("generate", "--preset=mig", "--nodes=12", "--devices=4", "--pods=40", f"--shapes={mix}").out
    for model in ("mig-a100-80gb", "mig-h100"):
        assert f'"node.kubernetes.io/instance-type":"{model}"' in generated
    run = dra("allocate", "-", "--policy=min-fragmentation", stdin=generated)
    assert (run.code, run.err.splitlines()[-1]) == (0, "40 of 40 placed")


def test_an_unknown_mix_is_refused_with_those_that_there_are() -> None:
    run = dra("generate", "--shapes=skew")
    assert run.code == 2
    assert "nor a mix: uniform, skew-small, skew-big, bimodal" in run.err
