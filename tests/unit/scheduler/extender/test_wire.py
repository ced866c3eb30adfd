"""Requests are read as kube-scheduler writes them, and one with fields of other types is refused with what is wrong."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.extender import wire
from scheduler.extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    MetaPod,
    MetaVictims,
)
from scheduler.runtime.server import Malformed

POD = {"metadata": {"name": "pod", "creationTimestamp": None}, "spec": {}, "status": {}}
BINDING = {"PodName": "pod", "PodNamespace": "default", "PodUID": "uid", "Node": "node-0"}


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def objects(*names: str) -> dict[str, Any]:
    """Nodes as kube-scheduler sends them to an extender without a cache."""
    nodes = [{"metadata": {"name": name, "creationTimestamp": None}, "spec": {}, "status": {}} for name in names]
    return {"metadata": {}, "items": nodes}


def asked(**fields: object) -> ExtenderArgs:
    return wire.read(ExtenderArgs, body(Pod=POD, **fields))


def why(type_: type[wire.Request], text: bytes) -> str:
    with pytest.raises(Malformed) as caught:
        wire.read(type_, text)
    return str(caught.value)


# -- filter and prioritize


def test_names_of_nodes_are_read_beside_null_objects() -> None:
    assert wire.names_of(asked(Nodes=None, NodeNames=["b", "a"])) == ["b", "a"]


def test_objects_of_nodes_are_read_beside_null_names() -> None:
    assert wire.names_of(asked(Nodes=objects("b", "a"), NodeNames=None)) == ["b", "a"]


@pytest.mark.parametrize("nodes", [{"items": None}, {"items": []}, {}])
def test_list_without_nodes_asks_about_none(nodes: object) -> None:
    assert wire.names_of(asked(Nodes=nodes)) == []


def test_no_names_are_not_the_same_as_null_ones() -> None:
    assert wire.names_of(asked(Nodes=None, NodeNames=[])) == []


def test_question_without_nodes_is_refused() -> None:
    for args in (asked(Nodes=None, NodeNames=None), asked()):
        with pytest.raises(Malformed, match=r"^NodeNames: is required, unless Nodes is given$"):
            wire.names_of(args)


def test_unknown_fields_are_left_unread() -> None:
    assert wire.names_of(asked(NodeNames=["a"], Later={"x": 1})) == ["a"]


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ({}, "Nodes.items[1].metadata: is required"),
        ({"metadata": None}, "Nodes.items[1].metadata: must be an object"),
        ({"metadata": 7}, "Nodes.items[1].metadata: must be an object (got 7)"),
        ({"metadata": {}}, "Nodes.items[1].metadata.name: is required"),
        ({"metadata": {"name": ["a"]}}, "Nodes.items[1].metadata.name: must be a string (got a list of 1 entry)"),
    ],
)
def test_node_without_a_name_is_named_by_its_place(node: object, problem: str) -> None:
    nodes = objects("a")
    nodes["items"].append(node)
    with pytest.raises(Malformed) as caught:
        wire.names_of(asked(Nodes=nodes))
    assert str(caught.value) == problem


# -- what is no request


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "the body is not JSON: "),
        (b"{", "the body is not JSON: "),
        (b'{"Pod": {}} {}', "the body is not JSON: "),
        (b'{"Pod": "\xff"}', "the body is not JSON: "),
        (b'{"Pod": ' + b"[" * 5000 + b"]" * 5000 + b"}", "the body is not JSON: "),
        (b"null", "the body must be a JSON object (got null)"),
        (b"[1, 2]", "the body must be a JSON object (got a list of 2 entries)"),
        (b'"pod"', 'the body must be a JSON object (got "pod")'),
        (b"true", "the body must be a JSON object (got true)"),
    ],
)
@pytest.mark.parametrize("type_", [ExtenderArgs, ExtenderPreemptionArgs, ExtenderBindingArgs])
def test_body_that_is_no_json_object_is_refused(type_: type[wire.Request], text: bytes, problem: str) -> None:
    assert why(type_, text).startswith(problem)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "Pod: is required"),
        ({"pod": POD}, "Pod: is required"),
        ({"Pod": None}, "Pod: must be an object"),
        ({"Pod": "pod"}, 'Pod: must be an object (got "pod")'),
        ({"Pod": POD, "NodeNames": "a"}, 'NodeNames: must be a list (got "a")'),
        ({"Pod": POD, "NodeNames": ["a", 7]}, "NodeNames[1]: must be a string (got 7)"),
        ({"Pod": POD, "NodeNames": ["a", None]}, "NodeNames[1]: must be a string"),
        ({"Pod": POD, "Nodes": []}, "Nodes: must be an object (got a list of 0 entries)"),
        ({"Pod": POD, "Nodes": {"items": {}}}, "Nodes.items: must be a list (got an object of 0 fields)"),
        ({"Pod": POD, "Nodes": {"items": ["a"]}}, 'Nodes.items[0]: must be an object (got "a")'),
        ({"Pod": 1, "NodeNames": 2}, "Pod: must be an object (got 1); NodeNames: must be a list (got 2)"),
    ],
)
def test_question_of_other_types_is_refused_by_field_and_value(fields: Mapping[str, object], problem: str) -> None:
    assert why(ExtenderArgs, body(**fields)) == problem


@pytest.mark.parametrize("missing", BINDING)
def test_binding_needs_all_of_its_fields(missing: str) -> None:
    fields = {name: value for name, value in BINDING.items() if name != missing}
    assert why(ExtenderBindingArgs, body(**fields)) == f"{missing}: is required"
    assert why(ExtenderBindingArgs, body(**fields, **{missing: 5})) == f"{missing}: must be a string (got 5)"


@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "Node"])
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../nodes/x", "a?b", "a%2fb", "a b", "A", "a\r\nb", "a" * 254])
def test_binding_names_objects(field: str, name: str) -> None:
    assert why(ExtenderBindingArgs, body(**{**BINDING, field: name})).startswith(f"{field}: ")


@pytest.mark.parametrize("field", ["NodeNames", "Nodes"])
def test_only_the_first_error_of_a_list_is_told(field: str) -> None:
    wrong = {"NodeNames": [7] * 1000, "Nodes": {"items": [7] * 1000}}
    assert why(ExtenderArgs, body(Pod=POD, **{field: wrong[field]})).count("must be") == 1


def test_call_may_not_ask_about_more_nodes_than_a_cluster_has() -> None:
    names = ["n"] * (wire.NODES_MAX + 1)
    told = f"NodeNames: must not have more than {wire.NODES_MAX} entries (got a list of {wire.NODES_MAX + 1} entries)"
    assert why(ExtenderArgs, body(Pod=POD, NodeNames=names)) == told
    assert len(wire.names_of(asked(NodeNames=names[1:]))) == wire.NODES_MAX


def test_pod_may_not_have_more_values_than_a_pod_has() -> None:
    told = f"Pod: must not have more than {wire.POD_VALUES_MAX:,} values"
    assert why(ExtenderArgs, body(Pod={**POD, "spec": {"x": [0] * wire.POD_VALUES_MAX}}, NodeNames=[])) == told
    assert asked(NodeNames=["a"] * wire.POD_VALUES_MAX)


def test_binding_is_read() -> None:
    assert wire.read(ExtenderBindingArgs, body(**BINDING)).model_dump() == BINDING


# -- preempt


def victims(**fields: object) -> Mapping[str, MetaVictims]:
    return wire.meta_victims(wire.read(ExtenderPreemptionArgs, body(Pod=POD, **fields)))


def test_victims_are_read_by_their_uids() -> None:
    asked = {"a": {"Pods": [{"UID": "1"}, {"UID": "2"}], "NumPDBViolations": 3}, "b": {"Pods": None}}
    assert victims(NodeNameToVictims=None, NodeNameToMetaVictims=asked) == {
        "a": MetaVictims(Pods=[MetaPod(UID="1"), MetaPod(UID="2")], NumPDBViolations=3),
        "b": MetaVictims(),
    }


@pytest.mark.parametrize("name", ["NodeNameToMetaVictims", "NodeNameToVictims"])
def test_nodes_have_no_more_victims_than_pods(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "typed", lambda *_: pytest.fail("the victims are decoded"))
    pods = [{"UID": "1"}] * (wire.VICTIMS_OF_NODE_MAX + 1)
    told = f'{name}."a".Pods: must not have more than 1,024 pods (got 1,025)'
    assert why(ExtenderPreemptionArgs, body(Pod=POD, **{name: {"a": {"Pods": pods}}})) == told
    number = wire.VICTIMS_MAX // wire.VICTIMS_OF_NODE_MAX
    nodes = {f"node-{node}": {"Pods": pods[1:]} for node in range(number)}
    nodes["last"] = {"Pods": pods[:1]}
    told = f"{name}: must not have more than 65,536 pods of all nodes"
    assert why(ExtenderPreemptionArgs, body(Pod=POD, **{name: nodes})) == told


def test_as_many_victims_are_read_as_nodes_have_pods() -> None:
    pods = [{"UID": "1"}] * wire.VICTIMS_OF_NODE_MAX
    assert len(victims(NodeNameToMetaVictims={"a": {"Pods": pods}})["a"].Pods or ()) == wire.VICTIMS_OF_NODE_MAX


def test_victims_are_read_from_whole_pods() -> None:
    pod = {"metadata": {"name": "v", "uid": "1"}, "spec": {}, "status": {}}
    asked = {"a": {"Pods": [pod], "NumPDBViolations": 2}, "b": {"Pods": None, "NumPDBViolations": 0}}
    assert victims(NodeNameToVictims=asked, NodeNameToMetaVictims=None) == {
        "a": MetaVictims(Pods=[MetaPod(UID="1")], NumPDBViolations=2),
        "b": MetaVictims(Pods=[]),
    }


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "NodeNameToMetaVictims: is required, unless NodeNameToVictims is given"),
        ({"NodeNameToMetaVictims": {"a": None}}, "NodeNameToMetaVictims.a: must be an object"),
        (
            {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": 1}]}}},
            "NodeNameToMetaVictims.a.Pods[0].UID: must be a string (got 1)",
        ),
        (
            {"NodeNameToMetaVictims": {"a": {"NumPDBViolations": "1"}}},
            'NodeNameToMetaVictims.a.NumPDBViolations: must be an integer (got "1")',
        ),
        (
            {"NodeNameToVictims": {"a": {"Pods": [{"metadata": {"uid": "1"}}, {"metadata": {}}]}}},
            "NodeNameToVictims.a.Pods[1].metadata.uid: is required",
        ),
    ],
)
def test_victims_of_other_types_are_refused_by_field_and_value(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(Malformed) as caught:
        victims(**fields)
    assert str(caught.value) == problem


# -- answers


def test_filter_answers_names_with_names() -> None:
    answer = wire.filter_result(asked(NodeNames=["a", "b", "c"]), ["a"], {"b": "unknown"}, {"c": "no devices"})
    assert json.loads(answer) == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {"b": "unknown"},
        "FailedAndUnresolvableNodes": {"c": "no devices"},
        "Error": "",
    }


def test_filter_answers_objects_with_the_same_objects() -> None:
    nodes = objects("a", "b")
    answer = json.loads(wire.filter_result(asked(Nodes=nodes), ["b"], {"a": "no"}, {}))
    assert (answer["Nodes"], answer["NodeNames"]) == ({"items": nodes["items"][1:]}, None)


def test_nobody_left_is_said_as_an_empty_list() -> None:
    assert json.loads(wire.filter_result(asked(NodeNames=["a"]), [], {"a": "no"}, {}))["NodeNames"] == []
    assert json.loads(wire.filter_result(asked(Nodes=objects("a")), [], {"a": "no"}, {}))["Nodes"] == {"items": []}


def test_error_is_all_that_is_said() -> None:
    assert json.loads(wire.error_result("not yet")) == {"Error": "not yet"}


def test_scores_are_said_by_host() -> None:
    answer = json.loads(wire.host_priorities({"a": 10, "b": 0}))
    assert answer == [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 0}]


def test_kept_nodes_are_said_with_their_victims() -> None:
    kept = {"a": MetaVictims(Pods=[MetaPod(UID="1")], NumPDBViolations=2)}
    assert json.loads(wire.preemption_result(kept)) == {
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 2}}
    }
