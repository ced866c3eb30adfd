import subprocess
import sys

import pytest

from allocator.policies import NAMES, UnknownPolicy, policy_of
from allocator.policies.contract import FIRST_FIT
from allocator.policies.hardware import NUMA_NODE, PCIE_ROOT


def test_every_policy_is_found_by_its_name() -> None:
    assert NAMES[0] == "first-fit"
    assert tuple(policy_of(name).name for name in NAMES) == NAMES


def test_first_fit_is_the_default_itself() -> None:
    assert policy_of("first-fit") is FIRST_FIT


def test_topology_reads_the_named_attributes_before_its_own() -> None:
    assert policy_of("topology").reads == (PCIE_ROOT, NUMA_NODE)
    assert policy_of("topology:a.example/link, b.example/switch").reads == (
        "a.example/link",
        "b.example/switch",
        PCIE_ROOT,
        NUMA_NODE,
    )
    assert policy_of(f"topology:{NUMA_NODE}").reads == (NUMA_NODE, PCIE_ROOT)


def test_least_fragmentation_keeps_the_named_groups_instead_of_its_own() -> None:
    assert policy_of("least-fragmentation").reads == (NUMA_NODE, PCIE_ROOT)
    assert policy_of("least-fragmentation:a.example/board").reads == ("a.example/board",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("best", "'best' is not among the policies: first-fit, pack, spread, min-fragmentation, fgd, best-fit, "),
        ("", "'' is not among the policies"),
        ("Pack", "'Pack' is not among the policies"),
        ("pack:a.example/b", "policy pack takes no attributes"),
        ("first-fit:", "policy first-fit takes no attributes"),
        ("topology:", "attribute '' has no domain"),
        ("topology:numaNode", "attribute 'numaNode' has no domain: write it as in resource.kubernetes.io/numaNode"),
        ("topology:a.example/", "attribute 'a.example/' has no domain"),
        ("least-fragmentation:a.example/b,", "attribute '' has no domain"),
    ],
)
def test_what_is_no_policy_is_reported(text: str, problem: str) -> None:
    with pytest.raises(UnknownPolicy) as reported:
        policy_of(text)
    assert problem in str(reported.value)


def test_networkx_is_imported_for_topology_only() -> None:
    program = (
        "import sys; from allocator.policies import policy_of; policy_of('pack'); assert 'networkx' not in sys.modules;"
        "policy_of('topology'); assert 'networkx' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
