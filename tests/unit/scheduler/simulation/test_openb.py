"""The openb files: what they become, and what is told of those that cannot be used."""

from pathlib import Path

import pytest

from scheduler.simulation.openb import InvalidTrace, Openb
from scheduler.simulation.orders import DrawnOrder
from scheduler.simulation.replay import FEATURES

NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,8000,1024,2,V100M16\nnode-1,8000,1024,0,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,10,1,460,V100M16|V100M32\nb,500,5,0,0,\n"
ORDER = '{"workload": "w", "seed": 7, "pods": [1, 0, 0], "nodes": [1, 0]}\n'


def a_trace(folder: Path, nodes: str = NODES, pods: str = PODS, order: str = ORDER) -> Openb:
    (folder / "orders").mkdir()
    (folder / "nodes.csv").write_text(nodes)
    (folder / "w.csv").write_text(pods)
    (folder / "orders" / "w.jsonl").write_text(order)
    return Openb(folder, "w")


def test_nodes_and_gpus_become_objects(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    inventory = trace.inventory(FEATURES)
    assert [node.name for node in inventory.nodes] == ["node-0", "node-1"]
    (slice_,) = inventory.slices
    assert [(d.name, d.attributes["model"], str(d.capacity["milli"])) for d in slice_.devices] == [
        ("gpu-0", ("string", "V100M16"), "1k"),
        ("gpu-1", ("string", "V100M16"), "1k"),
    ]
    assert all(device.allow_multiple_allocations for device in slice_.devices)
    assert list(inventory.templates) == [("default", "gpu-1-460-v100m16-v100m32")]
    assert trace.capacity == 2000


def test_arrivals_come_in_the_order_of_the_seed_each_with_a_name(tmp_path: Path) -> None:
    trace = a_trace(tmp_path)
    assert list(trace.orders().values()) == [DrawnOrder(7, (1, 0, 0), (1, 0))]
    found = [
        (pod.name, shape.amount, len(pod.claims)) for pod, shape in trace.arrivals(next(iter(trace.orders().values())))
    ]
    assert found == [("openb-00000", 0, 0), ("openb-00001", 460, 1), ("openb-00002", 460, 1)]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"nodes": NODES.replace("8000,1024,2", "8e3,1024,2")}, "nodes.csv, line 2: cpu_milli: '8e3' is not a whole"),
        ({"nodes": NODES.splitlines()[0]}, "nodes.csv: has no rows"),
        ({"nodes": NODES.replace("gpu,model", "gpus,model")}, "nodes.csv, line 2: column gpu is missing"),
        ({"pods": PODS.replace("1,460", "1,1460")}, "w.csv, line 2: gpu_milli: 1460 is not between 1 and 1000"),
        ({"pods": PODS.replace("1,460", "1,0")}, "w.csv, line 2: gpu_milli: 0 is not between 1 and 1000"),
        ({"pods": PODS.replace("500,5", "-5,5")}, "w.csv, line 3: cpu_milli: '-5' is not a whole number"),
        ({"order": ORDER.replace("[1, 0, 0]", "[1, 2]")}, "w.jsonl, line 1: pods[1]: 2 is not a row, of 2 from 0"),
        ({"order": ORDER.replace("[1, 0]}", '["x"]}')}, 'w.jsonl, line 1: nodes[0]: "x" is not a row, of 2'),
        ({"order": "{"}, "w.jsonl, line 1: is not JSON: "),
    ],
)
def test_what_cannot_be_used_is_told_with_file_line_and_value(
    tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    with pytest.raises(ValueError, match=r"\.(csv|jsonl)") as told:
        a_trace(tmp_path, **files).orders()
    assert problem in str(told.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidTrace, match=r"nodes\.csv: No such file"):
        Openb(tmp_path, "w")
