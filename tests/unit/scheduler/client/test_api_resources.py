"""Paths of objects."""

import ast
from pathlib import Path
from urllib.parse import unquote

from hypothesis import example, given
from hypothesis import strategies as st

import scheduler
from scheduler.client.api_resources import NODES, PODS, claims

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
HOME = "client/api_resources.py"


def test_path_of_the_core_group_and_of_others() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert claims("v1beta1").path("ns", "c", "status") == (
        "/apis/resource.k8s.io/v1beta1/namespaces/ns/resourceclaims/c/status"
    )
    assert PODS.path("ns", "p", "binding") == "/api/v1/namespaces/ns/pods/p/binding"


def test_namespace_is_left_out_of_what_has_none() -> None:
    assert NODES.path("ns", "n") == "/api/v1/nodes/n"


def test_resource_names_its_version() -> None:
    assert (PODS.api_version, claims("v1").api_version) == ("v1", "resource.k8s.io/v1")
    assert str(PODS) == "pods (v1)"


@example("..", ".")
@example("a/b", "../../nodes/x")
@example("a?b#c", "%2e%2e")
@given(NAMES, NAMES)
def test_each_name_is_one_segment(namespace: str, name: str) -> None:
    _, api, version, namespaces, first, pods, second, status = PODS.path(namespace, name, "status").split("/")
    assert (api, version, namespaces, pods, status) == ("api", "v1", "namespaces", "pods", "status")
    assert (unquote(first), unquote(second)) == (namespace, name)
    assert not {first, second} & {".", ".."}
    assert not set(first + second) & set("?# \r\n")


def test_names_come_into_paths_nowhere_else() -> None:
    """No other module puts a value into a text that is a path of the API."""
    root = Path(scheduler.__path__[0])
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in sorted(root.rglob("*.py"))
        if str(path.relative_to(root)) != HOME
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr) and is_path_with_a_name(node)
    ]
    assert found == []


def is_path_with_a_name(node: ast.JoinedStr) -> bool:
    parts = [one.value for one in node.values if isinstance(one, ast.Constant | ast.FormattedValue)]
    texts = [one if isinstance(one, str) else "" for one in parts]
    is_path = texts[0].startswith(("/api/", "/apis/")) or any("/namespaces/" in one for one in texts)
    is_below = len(parts) > 1 and is_call_of_path(parts[0]) and texts[1].startswith("/")
    return is_below or (is_path and not all(is_quoted(one) for one in parts if isinstance(one, ast.expr)))


def is_call_of_path(value: object) -> bool:
    """Whether it gives the path of other objects."""
    return isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "path"


def is_quoted(value: ast.expr) -> bool:
    """A constant, by its name, or what `segment` gives."""
    is_constant = isinstance(value, ast.Name) and value.id.isupper()
    return is_constant or (isinstance(value, ast.Call) and getattr(value.func, "id", "") == "segment")
