"""Which pods are one group, how many of them have to be placed at once, and what is wrong with what says so."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from allocator.api.findings import FieldError
from scheduler.core_v1.group_terms import (
    DISTINCT,
    GROUP,
    MATCH,
    MINIMUM,
    NO_TERMS,
    PREFERRED,
    REQUIRED,
    SLICE,
    AttributeTerm,
    annotations_read,
    group_terms,
)
from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.core_v1.pod_group import CompositePodGroup, PodGroup, decode_composite_pod_group, decode_pod_group
from scheduler.pod_groups.group import (
    COMPOSITE,
    KUEUE,
    LABEL,
    LEADER_WORKER_SET,
    POD_GROUP,
    GroupKey,
    GroupOfPods,
    groups_of,
)
from scheduler.state.pod_groups import PodGroupIndex, index_of
from tests.builders import a_pod


def decoded(spec: dict[str, Any], **metadata: Any) -> PodGroup:
    raw = {"metadata": {"name": "g", "namespace": "default", **metadata}, "spec": spec}
    group, errors = decode_pod_group(raw)
    assert group, errors
    return group


def gang(minimum: int = 2, **spec: Any) -> PodGroup:
    return decoded({"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec})


def only_group(
    pods: list[Pod], *objects: PodGroup | CompositePodGroup, recognized: frozenset[str] = frozenset()
) -> GroupOfPods:
    index = PodGroupIndex()
    for one in objects:
        if isinstance(one, PodGroup):
            index.set(one)
        else:
            index.set(one)
    (group,) = groups_of(pods, index, recognized)
    return group


@pytest.mark.parametrize("name", ["PodGroupScheduled", "PodGroupInitiallyScheduled"])
@pytest.mark.parametrize("status", ["True", "False"])
def test_pod_group_says_whether_it_was_scheduled(name: str, status: str) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    conditions = [{"type": "DisruptionTarget", "status": "True"}, {"type": name, "status": status}]
    raw = {"metadata": {"name": "g", "namespace": "default"}, "spec": spec, "status": {"conditions": conditions}}
    group, _ = decode_pod_group(raw)
    assert group is not None
    assert group.is_scheduled == (status == "True")
    assert not gang().is_scheduled


def members(number: int, **more: Any) -> list[Pod]:
    return [a_pod(name=f"p{place}", **{"group": "g", **more}) for place in range(number)]


def marked(minimums: list[str]) -> list[Pod]:
    labels = {GROUP: "g"}
    return [
        a_pod(name=f"p{place}", labels=labels, grouping={MINIMUM: text} if text else {})
        for place, text in enumerate(minimums)
    ]


def test_pod_group_says_how_many_are_placed_at_once() -> None:
    group = only_group(members(3), gang(2))
    assert (group.key, group.minimum, group.is_gang, group.problem, group.held) == (
        GroupKey(POD_GROUP, "default", "g"),
        2,
        True,
        "",
        "",
    )


def test_basic_group_needs_one_pod_with_a_place() -> None:
    group = only_group(members(3), decoded({"schedulingPolicy": {"basic": {}}}))
    assert (group.minimum, group.is_gang, group.missing) == (1, False, 1)


@pytest.mark.parametrize(
    ("spec", "whole"),
    [
        ({"disruptionMode": "PodGroup"}, True),
        ({"disruptionMode": {"all": {}}}, True),
        ({"disruptionMode": "Pod"}, False),
        ({"disruptionMode": {"single": {}}}, False),
        ({}, False),
    ],
)
def test_group_is_evicted_whole_where_it_says_so_in_any_version(spec: dict[str, Any], whole: bool) -> None:  # noqa: FBT001
    assert gang(**spec).goes_whole is whole


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ({"workloadRef": {"workloadName": "w", "templateName": "t"}}, ("w", "t")),
        ({"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}, ("w", "t")),
    ],
)
def test_workload_of_a_group_is_read_in_every_version(by: dict[str, Any], expected: tuple[str, str]) -> None:
    group = gang(**by)
    assert (group.workload, group.template) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workloadRef": {"templateName": "t"}}, "spec.workloadRef.workloadName: is required"),
        ({"workloadRef": {"workloadName": "w"}}, "spec.workloadRef.templateName: is required"),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology: must not have more than one entry (got 2)",
        ),
        (
            {"disruptionMode": {}},
            "spec.disruptionMode: must have exactly one of single and all (got an object of 0 fields)",
        ),
        ({"disruptionMode": 7}, "spec.disruptionMode: must have exactly one of single and all (got 7)"),
        (
            {"preemptionPolicy": "Always"},
            'spec.preemptionPolicy: must be one of Never, PreemptLowerPriority (got "Always")',
        ),
    ],
)
@pytest.mark.parametrize("decode", [decode_pod_group, decode_composite_pod_group])
def test_fields_that_every_version_refuses_are_errors(
    decode: Callable[[Mapping[str, object]], tuple[object, tuple[FieldError, ...]]],
    fields: dict[str, Any],
    message: str,
) -> None:
    spec = {"schedulingPolicy": {"basic": {}}, **fields}
    value, errors = decode({"metadata": {"name": "g"}, "spec": spec})
    assert value is None
    assert [str(error) for error in errors] == [message]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({}, "spec.schedulingPolicy: needs exactly one of basic and gang"),
        ({"basic": {}, "gang": {"minCount": 1}}, "spec.schedulingPolicy: needs exactly one of basic and gang"),
        ({"gang": {"minCount": 0}}, "spec.schedulingPolicy.gang.minCount: must be at least 1 (got 0)"),
    ],
)
def test_group_that_the_api_server_refuses_is_an_error_in_a_file(policy: dict[str, Any], message: str) -> None:
    raw = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}
    group, errors = decode_pod_group(raw)
    assert group is None
    assert [str(error) for error in errors] == [message]
    assert decode_pod_group(raw, validate=False)[0] is not None


def test_group_waits_for_its_pod_group_and_for_its_pods() -> None:
    assert only_group(members(1)).held == 'waiting for pods\'s pod group "g" to appear in scheduling queue'
    held = only_group(members(1), gang(2)).held
    assert held == "waiting for minCount pods from a gang to appear in scheduling queue"


def test_bound_pods_count_for_the_minimum() -> None:
    bound = replace(members(1)[0], name="b", uid="b", node_name="n")
    assert only_group([bound, *members(2)], gang(3)).missing == 2
    assert only_group([bound, *members(2)], gang(1)).missing == 1


def test_pod_that_is_over_is_in_no_group() -> None:
    over = replace(members(1)[0], name="over", uid="over", phase="Succeeded")
    assert len(only_group([over, *members(2)], gang(2)).members) == 2


def test_members_of_another_priority_than_the_group_are_refused_by_name() -> None:
    group = only_group(members(2, priority=6), gang(2, priority=5))
    assert group.problem == (
        "all pods in a single pod group should have the same priority as the pod group's priority, got 6 and 5"
    )


def composite(name: str, minimum: int | None = 1, **spec: Any) -> CompositePodGroup:
    policy: dict[str, Any] = {"basic": {}} if minimum is None else {"gang": {"minGroupCount": minimum}}
    found, errors = decode_composite_pod_group(
        {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}
    )
    assert found, errors
    return found


def child(name: str, minimum: int = 1, parent: str = "all", **spec: Any) -> PodGroup:
    return replace(gang(minimum, parentCompositePodGroupName=parent, **spec), name=name)


def of(name: str, number: int, **more: Any) -> list[Pod]:
    return [a_pod(name=f"{name}-{place}", group=name, **more) for place in range(number)]


def test_group_of_groups_has_the_members_of_all_groups_in_it() -> None:
    inner = composite("inner", parentCompositePodGroupName="all")
    pods = [*of("z", 2), *of("a", 3)]
    group = only_group(pods, composite("all", 2), child("a", 3), inner, child("z", 2, "inner"), child("y", 9, "inner"))
    assert (group.key, group.problem, group.held) == (GroupKey(COMPOSITE, "default", "all"), "", "")
    assert [pod.name for pod in group.members] == ["a-0", "a-1", "a-2", "z-0", "z-1"]
    assert (group.minimum, group.missing, group.has_enough) == (5, 5, False)
    assert group.names == {"all", "a", "inner", "z", "y"}
    on_nodes = [replace(pod, node_name="n") for pod in pods]
    bound = only_group(on_nodes, composite("all", 2), child("a", 3), inner, child("z", 2, "inner"))
    assert (bound.missing, bound.has_enough) == (1, True)


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([child("a", 2)], 'pod group "a" or one of its composite pod group ancestors has not been created yet'),
        (
            [child("a", 2, "inner"), composite("inner", parentCompositePodGroupName="all")],
            'pod group "a" or one of its composite pod group ancestors has not been created yet',
        ),
        (
            [composite("all", 2), child("a", 2), child("b", 2)],
            "waiting for CompositePodGroup default/all to meet its quorum: PodGroup b has 0 of 2 pods",
        ),
        (
            [composite("all", 2), child("a", 2)],
            "waiting for CompositePodGroup default/all to meet its quorum: it has 1 of 2 groups",
        ),
    ],
)
def test_group_of_groups_waits_for_its_objects_and_for_enough_groups_with_enough_pods(
    objects: list[PodGroup | CompositePodGroup], text: str
) -> None:
    assert only_group(of("a", 2), *objects).held == text


ROOT = composite("all", workloadRef={"workloadName": "w", "templateName": "t"})


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([composite("all"), child("a", priority=5)], "all pod groups in a hierarchy should have the same priority"),
        (
            [ROOT, child("a", workloadRef={"workloadName": "x", "templateName": "t"})],
            "PodGroup default/a: pod group workload does not match",
        ),
        ([composite("all"), child("a", preemptionPolicy="Never")], "should have the same preemption policy: PodGroup"),
        (
            [composite("all"), replace(child("a"), minimum=None)],
            "gang parent CompositePodGroup default/all cannot have basic child PodGroup default/a",
        ),
        (
            [composite("all", disruptionMode={"all": {}}), child("a")],
            "with All disruption mode cannot have child PodGroup default/a with Single disruption mode",
        ),
        (
            [composite("all", parentCompositePodGroupName="all"), child("a")],
            "CompositePodGroup default/all: is an ancestor of itself",
        ),
        (
            [
                composite("all", parentCompositePodGroupName="b"),
                composite("b", parentCompositePodGroupName="all"),
                child("a"),
            ],
            "CompositePodGroup default/all: is an ancestor of itself",
        ),
        (
            [
                *(composite(f"c{at}", parentCompositePodGroupName=f"c{at - 1}" if at else "all") for at in range(3)),
                composite("all"),
                child("a", 1, "c2"),
            ],
            "CompositePodGroup default/c2: hierarchy depth exceeds maximum allowed depth 4",
        ),
        (
            [composite("all"), replace(child("a"), annotations={PREFERRED: "rack"})],
            "PodGroup default/a: in a CompositePodGroup, only annotation dra-scheduler.dev/topology-required",
        ),
        (
            [replace(composite("all"), annotations={PREFERRED: "rack"}), child("a")],
            "CompositePodGroup default/all: in a CompositePodGroup, only annotation dra-scheduler.dev/topology-",
        ),
    ],
)
def test_tree_that_cannot_be_placed_is_refused_by_name(
    objects: list[PodGroup | CompositePodGroup], problem: str
) -> None:
    assert problem in only_group(of("a", 1), *objects).problem


def test_tree_keeps_to_the_domain_that_an_annotation_of_its_root_names() -> None:
    root, errors = decode_composite_pod_group(
        {
            "metadata": {"name": "all", "annotations": {"dra-scheduler.dev/topology-required": "rack"}},
            "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 1}}},
        }
    )
    assert root, errors
    assert only_group(of("a", 1), root, child("a")).terms.required == "rack"


def test_pods_of_a_tree_have_one_priority() -> None:
    group = only_group([*of("a", 1), *of("b", 1, priority=6)], composite("all"), child("a"), child("b"))
    assert group.problem == (
        "all pods in a pod group hierarchy should have the same priority as the root pod group's priority, got 0 and 6"
    )


def test_basic_group_of_groups_needs_one_and_lets_its_groups_be_basic() -> None:
    basic = replace(child("a"), minimum=None)
    group = only_group([*of("a", 2), *of("b", 1)], composite("all", None), basic, child("b", 2))
    assert (group.minimum, group.is_gang, group.problem, group.held) == (1, False, "", "")


def test_pod_goes_with_the_largest_group_around_it_that_goes_whole() -> None:
    whole: dict[str, Any] = {"disruptionMode": {"all": {}}}
    (pod,) = of("a", 1)

    def gone_with(outer: dict[str, Any], inner: dict[str, Any], own: dict[str, Any]) -> str:
        around = [composite("all", **outer), composite("b", parentCompositePodGroupName="all", **inner)]
        return str(index_of([child("a", 1, "b", **own)], around).whole_of(pod))

    assert gone_with(whole, whole, whole) == "default/all"
    assert gone_with({}, whole, whole) == "default/b"
    assert gone_with({}, {}, whole) == "default/a"
    assert gone_with({}, {}, {}) == "None"


def test_label_and_annotation_make_a_group() -> None:
    group = only_group(marked(["2", "2", "2"]))
    assert (group.key, group.minimum, group.problem) == (GroupKey(LABEL, "default", "g"), 2, "")


AT_MINIMUM = "metadata.annotations[dra-scheduler.dev/group-min]"


@pytest.mark.parametrize(
    ("minimums", "problem"),
    [
        (["2", "3"], f"pod default/p1: {AT_MINIMUM}: 3, but pod default/p0 says 2"),
        (["2", ""], f"pod default/p1: {AT_MINIMUM}: is required in group default/g"),
        (["0"], f'pod default/p0: {AT_MINIMUM}: must be a number of pods, from 1 to 2147483647 (got "0")'),
    ],
)
def test_members_that_say_different_minimums_are_refused_by_name(minimums: list[str], problem: str) -> None:
    assert only_group(marked(minimums)).problem == problem


NO_NUMBERS = ["1" + "0" * 4400, "9" * 200_000, "2147483648", "-1", "+2", "1e9", "\u0663", "3.0", "1_000", " 3", "2\n"]
"""Among them what Python does not read as an integer: it takes 4,300 digits at most."""


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: repr(text[:10]))
@pytest.mark.parametrize("annotation", [MINIMUM, SLICE])
def test_whatever_is_no_number_of_pods_is_refused_by_name(annotation: str, text: str) -> None:
    grouping = {MINIMUM: "1", REQUIRED: "example.com/rack", annotation: text}
    problem = only_group([a_pod(name="p0", labels={GROUP: "g"}, grouping=grouping)]).problem
    assert f"metadata.annotations[{annotation}]: must be a number of pods, from 1 to 2147483647 (got " in problem
    assert len(problem) < 1_000


@pytest.mark.parametrize("annotation", [MATCH, DISTINCT, PREFERRED])
def test_terms_of_which_there_are_too_many_are_refused_by_name_and_not_read(annotation: str) -> None:
    def read(number: int) -> tuple[int, list[str]]:
        parts = (f"example.com/a{one}" if annotation == PREFERRED else f"*=example.com/a{one}" for one in range(number))
        terms, errors = group_terms({annotation: ",".join(parts)})
        return len((*terms.match, *terms.distinct, *terms.preferred)), list(map(str, errors))

    assert read(32) == (32, [])
    for number in (33, 12_000):
        terms, (error,) = read(number)
        assert terms == 0
        assert f"metadata.annotations[{annotation}]: must have at most 32 terms (got " in error
        assert len(error) < 1_000


NO_TERMS_OF_ATTRIBUTES = [
    *("=", "*", "*=", "=d.example.com/rail", "*=rail", "gpu=d/e/rail", "*=/rail", "*=d.example.com/", "gpu==d/rail"),
    *("*=*/*", "g\npu=d/rail", "<script>=d/rail", "gpu =d/rail", "gpu=d/\u202e", "a/b=d.example.com/rail"),
    *("*=" + "d" * 200_000 + "/rail", "*=d/" + "r" * 200_000, "g" * 200_000 + "=d/rail", "*=" + "d/" * 100_000),
]


@pytest.mark.parametrize("text", NO_TERMS_OF_ATTRIBUTES, ids=lambda text: repr(text[:20]))
@pytest.mark.parametrize("annotation", [MATCH, DISTINCT])
def test_what_no_request_or_attribute_can_be_called_is_refused_by_name(annotation: str, text: str) -> None:
    terms, (error,) = group_terms({annotation: text})
    assert (*terms.match, *terms.distinct) == ()
    assert str(error).startswith(f"metadata.annotations[{annotation}]: must be REQUEST=DOMAIN/NAME")
    assert len(str(error)) < 1_000


def test_what_members_say_at_length_is_cut_in_their_refusal() -> None:
    texts = ["example.com/" + letter * 100_000 for letter in "ab"]
    groupings = [{MINIMUM: "2", REQUIRED: text} for text in texts]
    pods = [a_pod(name=f"p{one[REQUIRED][-1]}", labels={GROUP: "g"}, grouping=one) for one in groupings]
    problem = only_group(pods).problem
    assert f'pod default/pb: metadata.annotations[{REQUIRED}]: "example.com/bbb' in problem
    assert 'but others of the group say "example.com/aaa' in problem
    assert len(problem) < 1_000


def test_pod_group_goes_before_the_label() -> None:
    pods = [replace(pod, group="g") for pod in marked(["5", "5"])]
    assert only_group(pods, gang(2)).minimum == 2


@pytest.mark.parametrize(
    ("kind", "label", "annotation"),
    [
        (LEADER_WORKER_SET, "leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/size"),
        (KUEUE, "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"),
    ],
)
def test_controllers_that_write_the_number_are_recognized_only_if_asked(kind: str, label: str, annotation: str) -> None:
    pods = [a_pod(name=f"p{place}", labels={label: "g"}, grouping={annotation: "2"}) for place in range(2)]
    assert groups_of(pods, PodGroupIndex()) == []
    group = only_group(pods, recognized=frozenset({kind}))
    assert (group.key.source, group.minimum) == (kind, 2)


def test_annotations_of_a_pod_that_decide_about_groups_are_read_and_no_others() -> None:
    annotations = {MINIMUM: "2", REQUIRED: "rack", "other": "x"}
    raw = {"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [{"name": "c"}]}}
    pod, errors = decode_pod(raw)
    assert pod, errors
    assert pod.grouping == {MINIMUM: "2", REQUIRED: "rack"}


def test_topology_of_the_pod_group_goes_before_the_annotation() -> None:
    topology = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
    pods = members(2, grouping={REQUIRED: "rack", MATCH: "nic=nic.example/rail"})
    group = only_group(pods, gang(2, **topology))
    assert group.terms.required == "zone"
    assert group.terms.match == (AttributeTerm("nic", "nic.example/rail"),)


@pytest.mark.parametrize(
    ("annotations", "error"),
    [
        ({REQUIRED: "not a key"}, "metadata.annotations[dra-scheduler.dev/topology-required]"),
        ({"dra-scheduler.dev/topology-slice": "2"}, "needs dra-scheduler.dev/topology-required"),
        ({"dra-scheduler.dev/exclusive": "true"}, "needs dra-scheduler.dev/topology-required"),
        ({"dra-scheduler.dev/exclusive": "maybe"}, "must be true or false"),
        ({MATCH: "rail"}, "must be REQUEST=DOMAIN/NAME"),
    ],
)
def test_terms_that_cannot_be_understood_are_named(annotations: dict[str, str], error: str) -> None:
    _, errors = group_terms(annotations)
    assert len(errors) == 1
    assert error in str(errors[0])


RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


@pytest.mark.parametrize("on_pods", [True, False], ids=["pods", "PodGroup"])
@pytest.mark.parametrize(
    ("annotations", "spec", "required", "preferred"),
    [
        ({REQUIRED: "rack"}, {}, "rack", ()),
        ({}, RACK, "rack", ()),
        ({"kai.scheduler/topology-required-placement": "rack"}, {}, "rack", ()),
        ({"kai.scheduler/topology-preferred-placement": "rack"}, {}, "", ("rack",)),
        ({"kai.scheduler/topology-required-placement": "block", REQUIRED: "rack"}, {}, "rack", ()),
        ({"kai.scheduler/topology-preferred-placement": "x", PREFERRED: "block,rack"}, {}, "", ("block", "rack")),
        ({"kai.scheduler/topology-required-placement": "block"}, RACK, "rack", ()),
    ],
)
def test_other_names_for_the_same_wish_are_aliases(
    annotations: dict[str, str],
    spec: dict[str, Any],
    required: str,
    preferred: tuple[str, ...],
    on_pods: bool,  # noqa: FBT001
) -> None:
    raw = {"metadata": {"name": "p", "annotations": annotations if on_pods else {}}, "spec": {"containers": []}}
    pod, _ = decode_pod(raw, validate=False)
    assert pod is not None
    pods = members(2, grouping=pod.grouping)
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = only_group(pods, decoded({**policy, **spec}, annotations={} if on_pods else annotations))
    assert (group.terms.required, group.terms.preferred, group.problem) == (required, preferred, "")


@pytest.mark.parametrize(
    "annotation",
    [
        "kueue.x-k8s.io/podset-required-topology",
        "kueue.x-k8s.io/podset-preferred-topology",
        "alpha.jobset.sigs.k8s.io/exclusive-topology",
        "leaderworkerset.sigs.k8s.io/exclusive-topology",
    ],
)
def test_what_other_controllers_write_as_selectors_themselves_is_no_wish(annotation: str) -> None:
    assert annotations_read({annotation: "rack", MATCH: "*=d/rail"}) == {MATCH: "*=d/rail"}
    terms, errors = group_terms({annotation: "rack"})
    assert (terms, errors) == (NO_TERMS, ())
