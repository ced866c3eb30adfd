"""The openb files: what they become, and what is told of those that cannot be used."""

from pathlib import Path

import pytest

from allocator.gates import DEFAULT_RELEASE, Features
from scheduler.simulation.jobs import Job
from scheduler.simulation.openb import GATES, InvalidTrace, Openb

NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,8000,1024,2,V100M16\nnode-1,8000,1024,0,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,10,1,460,V100M16|V100M32\nb,500,5,0,0,\n"
TIMES = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,scheduled_time,deletion_time
a,1,1,0,0,10,20,50
b,1,1,0,0,11,,50.0
c,1,1,0,0,12,13,
"""


def a_trace(folder: Path, nodes: str = NODES, pods: str = PODS) -> Openb:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "w.csv").write_text(pods)
    return Openb(folder, "w")


def test_nodes_and_gpus_become_objects(tmp_path: Path) -> None:
    inventory = a_trace(tmp_path).inventory(Features.of(DEFAULT_RELEASE, GATES))
    assert [node.name for node in inventory.nodes] == ["node-0", "node-1"]
    (slice_,) = inventory.slices
    assert [(d.name, d.attributes["model"], str(d.capacity["milli"])) for d in slice_.devices] == [
        ("gpu-0", ("string", "V100M16"), "1k"),
        ("gpu-1", ("string", "V100M16"), "1k"),
    ]
    assert all(device.allow_multiple_allocations for device in slice_.devices)
    assert list(inventory.templates) == [("default", "gpu-1-460-v100m16-v100m32")]


def test_pods_arrive_one_after_the_other_each_with_a_name(tmp_path: Path) -> None:
    jobs = a_trace(tmp_path).jobs()
    assert [(job.pod.name, len(job.pod.claims), job.time_s, job.duration_s) for job in jobs] == [
        ("openb-00000", 1, 0.0, None),
        ("openb-00001", 0, 1.0, None),
    ]


def test_pods_with_times_run_from_when_they_were_scheduled_or_created(tmp_path: Path) -> None:
    assert [times(job) for job in a_trace(tmp_path, pods=TIMES).jobs()] == [(10.0, 30.0), (11.0, 39.0), (12.0, None)]


def times(job: Job) -> tuple[float, float | None]:
    return job.time_s, job.duration_s


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"nodes": NODES.replace("8000,1024,2", "8e3,1024,2")}, "nodes.csv, line 2: cpu_milli: '8e3' is not a whole"),
        ({"nodes": NODES.splitlines()[0]}, "nodes.csv: has no rows"),
        ({"nodes": NODES.replace("gpu,model", "gpus,model")}, "nodes.csv, line 2: column gpu is missing"),
        ({"pods": PODS.replace("1,460", "1,1460")}, "w.csv, line 2: gpu_milli: 1460 is not between 1 and 1000"),
        ({"pods": PODS.replace("1,460", "1,0")}, "w.csv, line 2: gpu_milli: 0 is not between 1 and 1000"),
        ({"pods": PODS.replace("500,5", "-5,5")}, "w.csv, line 3: cpu_milli: '-5' is not a whole number"),
        ({"pods": TIMES.replace("10,20", ",20")}, "w.csv, line 2: creation_time: '' is not a whole number"),
        ({"pods": TIMES.replace("13,", "1x,")}, "w.csv, line 4: scheduled_time: '1x' is not a whole number"),
    ],
)
def test_what_cannot_be_used_is_told_with_file_line_and_value(
    tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidTrace) as told:
        a_trace(tmp_path, **files).jobs()
    assert problem in str(told.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidTrace, match=r"nodes\.csv: No such file"):
        Openb(tmp_path, "w")
