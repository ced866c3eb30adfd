"""Small nodes and pods that meet each other often: few names, few amounts, and all that filters and scores read."""

from hypothesis import strategies as st

from allocator.model import Container, Node, Requirement, Taint, Term, Toleration
from cel.values.quantity import Quantity
from scheduler.core_v1.label_selectors import AffinityTerm, PodAffinity, SpreadConstraint, WeightedTerm
from scheduler.core_v1.pod import Pod, Preference
from scheduler.core_v1.resources import HostPort
from tests.properties.decision.naive import HOSTNAME

NAMES = ("n0", "n1", "n2", "n3", "n4")
GPU = "example.com/gpu"

keys = st.sampled_from(["zone", "disk"])
values = st.sampled_from(["a", "b"])
labels = st.dictionaries(keys, values, max_size=2)
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
taints = st.lists(st.builds(Taint, keys, st.sampled_from(["", "a"]), effects), max_size=2).map(tuple)

cordon = Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule")
tolerations = st.lists(
    st.one_of(
        st.builds(Toleration, keys, st.just("Exists"), st.just(""), st.one_of(st.just(""), effects)),
        st.builds(Toleration, keys, st.sampled_from(["", "Equal"]), st.sampled_from(["", "a"])),
        st.sampled_from([cordon, Toleration("", "Exists")]),
    ),
    max_size=2,
).map(tuple)


def amount_of(written: list[str]) -> st.SearchStrategy[Quantity]:
    return st.sampled_from(written).map(Quantity.parse)


cpu = amount_of(["0", "1m", "100m", "333m", "500m", "1", "1500m", "2", "100u"])
memory = amount_of(["0", "1", "100Mi", "512Mi", "1Gi", "2Gi", "100m"])
asked = st.fixed_dictionaries({}, optional={"cpu": cpu, "memory": memory, GPU: amount_of(["1", "2"])})
offered = st.fixed_dictionaries(
    {"pods": amount_of(["0", "1", "2", "10"])},
    optional={
        "cpu": amount_of(["1", "2", "4", "3999m"]),
        "memory": amount_of(["1Gi", "2Gi", "8Gi"]),
        GPU: amount_of(["0", "2", "4"]),
    },
)
roomy = st.fixed_dictionaries(
    {
        "pods": amount_of(["10"]),
        "cpu": amount_of(["8", "16"]),
        "memory": amount_of(["16Gi", "31Gi"]),
        GPU: amount_of(["8"]),
    }
)


def nodes_named(name: str) -> st.SearchStrategy[Node]:
    return st.builds(
        Node,
        name=st.just(name),
        labels=st.one_of(labels, labels.map(lambda found: {**found, HOSTNAME: name})),
        taints=st.one_of(st.just(()), st.just(()), taints),
        unschedulable=st.sampled_from([False, False, False, True]),
        allocatable=st.one_of(roomy, roomy, offered),
    )


nodes = st.sampled_from(NAMES).flatmap(nodes_named)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=2).map(tuple)),
    st.builds(Requirement, keys, st.sampled_from(["Exists", "DoesNotExist"]), st.just(())),
)
fields = st.builds(
    Requirement, st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), st.sampled_from(NAMES).map(lambda n: (n,))
)
terms = st.builds(
    Term, st.lists(requirements, max_size=2).map(tuple), st.one_of(st.just(()), st.lists(fields, max_size=2).map(tuple))
)
containers = st.lists(st.builds(Container, st.just("c"), asked, st.booleans()), max_size=3).map(
    lambda found: tuple(sorted(found, key=lambda one: not one.is_plain_init) if len(found) < 3 else found)
)
ports = st.lists(
    st.builds(
        HostPort,
        st.sampled_from([80, 81]),
        st.sampled_from(["TCP", "UDP"]),
        st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),  # noqa: S104 - an address of a node
    ),
    max_size=2,
).map(tuple)


namespaces = st.lists(st.sampled_from(["default", "elsewhere"]), max_size=2).map(frozenset)
selectors = st.one_of(st.none(), st.lists(requirements, max_size=2).map(tuple))
topology_keys = st.sampled_from(["zone", "disk", HOSTNAME])
affinity_terms = st.lists(st.builds(AffinityTerm, topology_keys, namespaces, selectors, selectors), max_size=2).map(
    tuple
)
weighted_terms = st.lists(
    st.builds(
        WeightedTerm, st.sampled_from([1, 10, 100]), st.builds(AffinityTerm, topology_keys, namespaces, selectors)
    ),
    max_size=2,
).map(tuple)
pod_affinities = st.builds(
    PodAffinity,
    required=st.one_of(st.just(()), affinity_terms),
    preferred=weighted_terms,
    required_anti=st.one_of(st.just(()), affinity_terms),
    preferred_anti=weighted_terms,
)
constraints = st.lists(
    st.builds(
        SpreadConstraint,
        st.integers(1, 3),
        topology_keys,
        selectors,
        is_hard=st.booleans(),
        min_domains=st.sampled_from([1, 1, 2, 3]),
        honors_affinity=st.booleans(),
        honors_taints=st.booleans(),
    ),
    max_size=2,
    unique_by=lambda one: (one.topology_key, one.is_hard),
).map(tuple)


def pods_named(name: str) -> st.SearchStrategy[Pod]:
    return st.builds(
        Pod,
        namespace=st.just("default"),
        name=st.just(name),
        uid=st.just(f"uid-{name}"),
        labels=labels,
        pod_affinity=st.one_of(st.just(PodAffinity()), pod_affinities),
        spread=st.one_of(st.just(()), constraints),
        node_selector=st.one_of(st.just({}), st.just({}), labels),
        affinity=st.one_of(st.none(), st.none(), st.none(), st.lists(terms, max_size=2).map(tuple)),
        preferences=st.lists(st.builds(Preference, st.integers(1, 100), terms), max_size=2).map(tuple),
        tolerations=tolerations,
        containers=containers,
        budget=st.one_of(st.just({}), asked.map(without_gpu)),
        overhead=st.one_of(st.just({}), asked.map(without_gpu)),
        host_ports=st.one_of(st.just(()), ports),
    )


common = st.sampled_from([(), (Requirement("app", "In", ("a",)),), (Requirement("app", "NotIn", ("a",)),)])
common_terms = st.builds(AffinityTerm, topology_keys, st.just(frozenset({"default"})), common)
few_terms = st.lists(common_terms, max_size=2).map(tuple)
few_weighted = st.lists(st.builds(WeightedTerm, st.sampled_from([1, 10]), common_terms), max_size=1).map(tuple)
neighbourly = st.builds(PodAffinity, few_terms, few_weighted, few_terms, few_weighted)
spreading = st.lists(
    st.builds(SpreadConstraint, st.integers(1, 2), topology_keys, common, st.booleans(), st.sampled_from([1, 1, 3])),
    min_size=1,
    max_size=2,
    unique_by=lambda one: (one.topology_key, one.is_hard),
).map(tuple)


def neighbours_named(name: str) -> st.SearchStrategy[Pod]:
    """A pod that says nothing but of other pods: of those near, or of how it spreads."""
    who = {"namespace": st.just("default"), "name": st.just(name), "uid": st.just(f"uid-{name}")}
    labelled: st.SearchStrategy[dict[str, str]] = st.builds(dict, app=values)
    silent = st.builds(Pod, **who, labels=labelled)
    near = st.builds(Pod, **who, labels=labelled, pod_affinity=neighbourly)
    return st.one_of(silent, near, st.builds(Pod, **who, labels=labelled, spread=spreading))


spreading_pods = st.builds(
    Pod,
    namespace=st.just("default"),
    name=st.just("new"),
    uid=st.just("new"),
    labels=st.just({"app": "a"}),
    spread=spreading,
)
places = st.fixed_dictionaries({"zone": values}, optional={"disk": values, HOSTNAME: values})
wide_nodes = st.tuples(*(st.builds(Node, st.just(name), labels=places, allocatable=roomy) for name in NAMES))
"""All nodes, with room for many pods; two of them may share a host, which only makes it harder."""

crowds = st.lists(
    st.tuples(st.integers(0, len(NAMES) - 1), st.sampled_from("abcdefgh").flatmap(neighbours_named)),
    min_size=5,
    max_size=8,
    unique_by=lambda one: one[1].uid,
)
"""Pods that say nothing but of other pods, by the number of their node."""


def without_gpu(amounts: dict[str, Quantity]) -> dict[str, Quantity]:
    return {name: amount for name, amount in amounts.items() if name != GPU}
