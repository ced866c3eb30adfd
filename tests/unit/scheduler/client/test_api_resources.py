"""Paths of objects."""

from scheduler.client.api_resources import NODES, PODS, claims


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
