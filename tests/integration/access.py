"""What an identity may do, as the API server tells it."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.controlplane.identities import Identity
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import RestClient

Right = tuple[str, str, str, str]
"""Group, resource, verb, and the only name for which it holds, empty for all."""


def asked(api: RestClient, group: str, resource: str, verb: str) -> bool:
    """Whether the server would let the client do it, in no namespace and so in every one."""
    name, _, subresource = resource.partition("/")
    wanted = {"group": group, "resource": name, "subresource": subresource, "verb": verb}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}}
    return bool(api.create({**review, "spec": {"resourceAttributes": wanted}})["status"]["allowed"])


def rights(plane: ControlPlane, identity: Identity, namespace: str) -> set[Right]:
    """All that the identity may do with resources in the namespace."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "metadata": {}}
    answer = plane.client(identity).create({**review, "spec": {"namespace": namespace}})["status"]
    assert not answer["incomplete"]
    return {right for rule in answer["resourceRules"] for right in each(rule)}


def await_rights(plane: ControlPlane, identity: Identity, namespace: str, needed: set[Right]) -> None:
    """Return when the identity may do all this: the server hears of rights that were given some time later."""
    poll_until(lambda found: found >= needed, lambda: rights(plane, identity, namespace), f"{identity.name}: {needed}")


def each(rule: Mapping[str, Any]) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or ("",):
                    yield group, resource, verb, name
