"""Resources of pods and nodes: what containers request, and what a node offers.

A container with a limit and no request requests its limit, as the API server would default it.
Source: k8s.io/api core/v1 ResourceRequirements; its defaults and validation.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from pydantic_core import PydanticCustomError, core_schema

from allocator.api import names
from allocator.api.findings import FieldError, step_text
from allocator.api.schema import CheckedBy
from allocator.model import Container
from allocator.pod_resources import CLASS_PREFIX, is_extended
from cel.values.quantity import Quantity
from scheduler.core_v1.object_fields import ObjectFields, name_error

# Host ports of a pod: the ports that its long-running containers use on the node.
#
# Fields are read leniently: a port of a wrong type counts as none, and the API server has rejected it. Source:
# k8s.io/api core/v1 ContainerPort; a pod in its host's network has every port of its containers there.


ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing listens here: it stands for every address of a node


class HostPort(NamedTuple):
    """A port of the node. address: `ANY_ADDRESS` takes it on all of the node's."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS


def host_ports_of(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """The host ports of sidecars and containers, in their order. spec: raw."""
    is_host = spec.get("hostNetwork") is True
    return tuple(host_port for port in _ports(spec) if (host_port := _host_port(port, is_host=is_host)))


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


_UNIT = 10**9


@lru_cache(maxsize=1 << 14)
def _parsed(text: str) -> Quantity:
    """Raises ValueError, also for an amount that has too many digits to be counted."""
    amount = Quantity.parse(text.strip(" \t\r\n"))
    _ = amount.nanos
    return amount


def _quantity(value: object) -> Quantity:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            return _parsed(str(value))
        except ValueError:
            pass  # reported below, as every other value that is no amount
    raise PydanticCustomError("quantity", "must be a quantity such as 80Gi, 500m or 4")


Amount = Annotated[Quantity, CheckedBy(core_schema.no_info_plain_validator_function(_quantity))]
"""A quantity, written as text or as a bare number."""


class EntryFields(ObjectFields):
    """An entry of resources.claims."""

    name: str
    request: str | None = None


class ResourcesFields(ObjectFields):
    """The resources of a container, or of a pod as a whole."""

    limits: dict[str, Amount] | None = None
    requests: dict[str, Amount] | None = None
    claims: list[EntryFields] | None = None


class ContainerFields(ObjectFields):
    """A container, as far as resources are concerned."""

    name: str = ""
    restartPolicy: str | None = None  # noqa: N815 - the API's name
    resources: ResourcesFields | None = None


def containers_of(init: Sequence[ContainerFields], others: Sequence[ContainerFields]) -> tuple[Container, ...]:
    """All containers of a pod; an init container that restarts always is a sidecar, and lasts."""
    return (
        *(_container(one, is_plain_init=one.restartPolicy != "Always") for one in init),
        *(_container(one, is_plain_init=False) for one in others),
    )


def resource_errors(path: str, containers: Sequence[ContainerFields]) -> Iterator[FieldError]:
    """The problems of the amounts of the containers. path: of their list."""
    for position, container in enumerate(containers):
        resources = container.resources or ResourcesFields()
        for part, amounts in (("limits", resources.limits), ("requests", resources.requests)):
            yield from amount_errors(f"{path}[{position}].resources.{part}", amounts or {})
        yield from _limit_errors(f"{path}[{position}].resources", resources.requests or {}, resources.limits or {})


def _limit_errors(path: str, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Iterator[FieldError]:
    """Requests beyond their limit; devices are not overcommitted, so of them both have to be the same."""
    for name, amount in requests.items():
        limit, at = limits.get(name), f"[{step_text(name)}]"
        is_exact = is_extended(name) and not name.startswith(CLASS_PREFIX)
        if limit is None and is_exact:
            yield FieldError(f"{path}.limits{at}", None, f"is required beside requests{at}, with the same amount")
        elif limit is not None and is_exact and amount.nanos != limit.nanos:
            yield FieldError(f"{path}.requests{at}", amount.text, f"must be the same as the limit, {limit.text}")
        elif limit is not None and amount.nanos > limit.nanos:
            yield FieldError(f"{path}.requests{at}", amount.text, f"must be at most the limit, {limit.text}")


def entry_errors(path: str, containers: Sequence[ContainerFields], entries: frozenset[str]) -> Iterator[FieldError]:
    """The problems of the claims that containers use. path: of their list; entries: names of the pod's."""
    for position, container in enumerate(containers):
        used = (container.resources and container.resources.claims) or ()
        at, seen = f"{path}[{position}].resources.claims", dict[str, set[str]]()
        for number, entry in enumerate(used):
            if entry.name not in entries:
                message = "must be the name of an entry of spec.resourceClaims"
                yield FieldError(f"{at}[{number}].name", entry.name, message)
            if entry.request:
                yield from name_error(f"{at}[{number}].request", entry.request, names.short_name)
            if _is_used(entry, seen.setdefault(entry.name, set())):
                message = "must not name what an entry before it names: the claim, or the same request of it"
                yield FieldError(f"{at}[{number}]", _text(entry), message)
            seen[entry.name].add(entry.request or "")


def _is_used(entry: EntryFields, before: set[str]) -> bool:
    """Whether entries before name a request of the entry's, "" for all that the claim has."""
    return bool(before) and (not entry.request or "" in before or entry.request in before)


def _text(entry: EntryFields) -> str:
    return f"{entry.name}/{entry.request}" if entry.request else entry.name


def amount_errors(path: str, amounts: Mapping[str, Quantity]) -> Iterator[FieldError]:
    """Amounts that no resource can have. path: of the map."""
    for name, amount in amounts.items():
        if amount.sign < 0:
            yield FieldError(f"{path}[{name}]", amount.text, "must not be negative")
        elif is_extended(name) and amount.nanos % _UNIT:
            yield FieldError(f"{path}[{name}]", amount.text, "must be a whole number: devices are not divided")


def _container(fields: ContainerFields, *, is_plain_init: bool) -> Container:
    resources = fields.resources or ResourcesFields()
    return Container(
        fields.name,
        {**(resources.limits or {}), **(resources.requests or {})},
        is_plain_init,
        tuple(dict.fromkeys(entry.name for entry in resources.claims or ())),
    )
