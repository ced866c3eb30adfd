"""Host ports of a pod: the ports that its long-running containers use on the node.

Fields are read leniently: a port of a wrong type counts as none, and the API server has rejected it.
Source: k8s.io/api core/v1 ContainerPort; a pod in its host's network has every port of its containers there.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing listens here: it stands for every address of a node


class HostPort(NamedTuple):
    """A port of the node. address: `ANY_ADDRESS` takes it on all of the node's."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS


def host_ports_of(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """The host ports of sidecars and containers, in their order. spec: raw."""
    is_host = spec.get("hostNetwork") is True
    return tuple(found for port in _ports(spec) if (found := _host_port(port, is_host=is_host)))


def _ports(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for container in objects(spec, "initContainers"):
        if container.get("restartPolicy") == "Always":
            yield from objects(container, "ports")
    for container in objects(spec, "containers"):
        yield from objects(container, "ports")


def objects(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects of a list, none where it is no list."""
    value = holder.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _host_port(port: Mapping[str, Any], *, is_host: bool) -> HostPort | None:
    number = port.get("hostPort") or (port.get("containerPort") if is_host else None)
    if not isinstance(number, int) or number <= 0:
        return None
    return HostPort(number, str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ANY_ADDRESS))
