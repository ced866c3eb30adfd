"""A number with more digits than Python reads is told as any other that is too large, wherever it stands."""

from pathlib import Path

import orjson
import pytest

from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import a_cluster, a_pod

ENDLESS = "9" * 5000
NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,8000,1024,2,A\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time\na,1000,10,1,460,A,1\n"


def on_a_cluster(folder: Path, *arguments: str | Path) -> Run:
    subcommand, *rest = arguments
    return dra(subcommand, saved(folder, *a_cluster(), a_pod("p", template="one")), *rest)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("simulate", "--defrag", f"every=10,max-moves={ENDLESS}"), "max-moves is a number above 0"),
        (("simulate", "--set", f"add:node-1:{ENDLESS}"), "is not a whole number from 1 to 1000000"),
        (("whatif", "--overlay", f"add:node-1:{ENDLESS}"), "is not a whole number from 1 to 1000000"),
    ],
)
def test_of_an_option(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    run = on_a_cluster(tmp_path, *arguments)
    assert (run.code, problem in run.err, len(run.err) < 1000) == (2, True, True)


def test_of_copies(tmp_path: Path) -> None:
    run = dra("fit", "pod/p", saved(tmp_path, *a_cluster(), a_pod("p", template="one")), "--replicas", ENDLESS)
    assert (run.code, "is neither a number above 0 nor max" in run.err) == (2, True)


def test_of_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(orjson.dumps({"time": 0, "change": f"add:node-1:{ENDLESS}"}))
    run = on_a_cluster(tmp_path, "simulate", "--trace", trace)
    assert (run.code, f"{trace}, line 1: change: count '999" in run.err) == (2, True)


@pytest.mark.parametrize(
    ("nodes", "pods", "problem"),
    [
        (NODES.replace("8000", ENDLESS), PODS, "nodes.csv, line 2: cpu_milli: '999"),
        (NODES.replace("1024,2", "1024,129"), PODS, "nodes.csv, line 2: gpu: '129' is not a whole number up to 128"),
        (NODES, PODS.replace("A,1", f"A,{ENDLESS}"), "pods.csv, line 2: creation_time: '999"),
        (NODES, PODS.replace("1000,10,1", f"1000,10,{ENDLESS}"), "pods.csv, line 2: num_gpu: '999"),
    ],
)
def test_of_an_openb_trace(tmp_path: Path, nodes: str, pods: str, problem: str) -> None:
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "pods.csv").write_text(pods)
    run = dra("simulate", tmp_path / "nodes.csv", "--trace", tmp_path / "pods.csv")
    assert (run.code, problem in run.err, len(run.err) < 1000) == (2, True, True)


def test_of_an_object_that_is_there_twice(tmp_path: Path) -> None:
    first, second = a_pod("p", template="one"), a_pod("p", template="one", nodeName="node-1")
    for pod in (first, second):
        pod["metadata"] |= {"uid": "u", "resourceVersion": ENDLESS}
    run = dra("allocate", saved(tmp_path, *a_cluster(), first, second))
    assert (run.code, "Pod default/p" in run.err) == (2, True)


def test_of_a_release_and_of_a_version(tmp_path: Path) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(f"apiVersion: kubescheduler.config.k8s.io/v{ENDLESS}\nkind: KubeSchedulerConfiguration\n")
    assert dra("extender", "check", file).code in (0, 1, 2)
    run = dra("extender", "check", file, "--kubernetes", f"1.{ENDLESS}")
    assert (run.code, "is not a release of Kubernetes" in run.err) == (2, True)
