"""Resources of pods and nodes: what containers request, what a node offers, and the fields that ask for claims.

A container with a limit and no request requests its limit, as the API server would default it. Of a pod, only what has
to do with claims and groups is known in full, since kubectl apply refuses fields of no known name there; of all else,
fields are left to the API server.
Source: k8s.io/api core/v1 ResourceRequirements, PodSpec, PodResourceClaim, ResourceClaim; defaults and validation.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.findings import FieldError, UnknownField, step_text
from allocator.api.schema import CheckedBy, advice_on_place
from allocator.model import Container
from allocator.pod_resources import CLASS_PREFIX, is_extended
from allocator.words import similar
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


class _ClaimOfContainer(TypedDict):
    name: str
    request: str


class _ResourcesOfContainer(TypedDict):
    limits: dict[str, object]
    requests: dict[str, object]
    claims: list[_ClaimOfContainer]


class _ContainerWithClaims(TypedDict):
    resources: _ResourcesOfContainer


class _ClaimOfPod(TypedDict):
    name: str
    source: object  # up to Kubernetes 1.30, reported as an error of its own
    resourceClaimName: str
    resourceClaimTemplateName: str


class _GroupOfPod(TypedDict):
    podGroupName: str


class _SpecWithClaims(TypedDict):
    schedulingGroup: _GroupOfPod
    resourceClaims: list[_ClaimOfPod]
    containers: list[_ContainerWithClaims]
    initContainers: list[_ContainerWithClaims]
    ephemeralContainers: list[_ContainerWithClaims]


class _PodWithClaims(TypedDict):
    spec: _SpecWithClaims


_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_ELSEWHERE = frozenset({"claims", "resourceClaims", "resourceClaimName", "resourceClaimTemplateName"})
_LIKE_CLAIMS = frozenset({"resources"})
"""Fields of their own that are like `resourceClaims`."""


def unknown_claim_fields(raw: Mapping[str, Any], at: Sequence[str] = ("spec",)) -> Iterator[UnknownField]:
    """The fields about claims that are misplaced or misspelt. at: the path of a pod's spec in raw."""
    above, whole = "", ".".join(at)
    holder: Any = raw
    for step in at:
        for name in filter(_is_misplaced, holder):
            yield UnknownField(f"{above}{step_text(name)}", f"it belongs in {whole}")
        holder, above = holder.get(step), f"{above}{step}."
        if not isinstance(holder, dict):
            return
    for path, name in _unknown(holder):
        advice = advice_on_place(f"{path}.{name}", _PodWithClaims).replace("in spec", f"in {whole}", 1)
        yield UnknownField(f"{whole}{path.removeprefix('spec')}.{step_text(name)}", advice)


def _unknown(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(object, name of the field in it)."""
    yield from (("spec", name) for name in spec if _is_misplaced(name) and name != "resourceClaims")
    for number, entry in enumerate(objects(spec, "resourceClaims")):
        yield from _others(f"spec.resourceClaims[{number}]", entry, _ClaimOfPod)
    if isinstance(group := spec.get("schedulingGroup"), dict):
        yield from _others("spec.schedulingGroup", group, _GroupOfPod)
    for field in _CONTAINERS:
        for number, container in enumerate(objects(spec, field)):
            yield from _of_container(f"spec.{field}[{number}]", container)


def _of_container(path: str, container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((path, name) for name in container if _is_misplaced(name))
    resources = container.get("resources")
    if isinstance(resources, dict):
        yield from _others(f"{path}.resources", resources, _ResourcesOfContainer)
        for number, entry in enumerate(objects(resources, "claims")):
            yield from _others(f"{path}.resources.claims[{number}]", entry, _ClaimOfContainer)


@lru_cache(maxsize=1 << 10)
def _is_misplaced(name: object) -> bool:
    is_like = isinstance(name, str) and name not in _LIKE_CLAIMS and bool(similar(name, ["resourceClaims"]))
    return name in _ELSEWHERE or is_like


def _others(path: str, fields: Mapping[str, Any], type_: type) -> Iterator[tuple[str, str]]:
    """The fields that the type does not have."""
    yield from ((path, name) for name in fields if isinstance(name, str) and name not in type_.__annotations__)
