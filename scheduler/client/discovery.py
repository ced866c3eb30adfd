"""What the API server serves: its release, the version of resource.k8s.io to use, and whether DeviceTaintRules exist.

Discovered at the start, and looked at from then on: a server that was upgraded is told, and not followed. The server
does not show its feature gates without special permissions. They are inferred from its release and from what it serves,
and `--feature-gates` overrides them.
Source: the API group documents under /apis, and /version.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Never

import orjson

from allocator.api.versions import GROUP, Json
from allocator.gates import DEVICE_TAINT_RULES, DEVICE_TAINTS, RELEASES, Features
from scheduler.client import api_resources
from scheduler.client.api_resources import Resource, segment
from scheduler.client.connection import Connection
from scheduler.client.errors import ApiError, CallFailed, Unanswered
from scheduler.core_v1 import pod_group

VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Of resource.k8s.io, the best first."""

RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")
"""Of DeviceTaintRules, the best first; v1beta1 never had them."""

_NOT_FOUND = 404
_NEEDED = ("resourceclaims", "resourceslices", "deviceclasses")
_RULES = "devicetaintrules"
_OF_GROUPS = (api_resources.POD_GROUPS.plural, api_resources.COMPOSITE_POD_GROUPS.plural)


_NO_DOCUMENTS: Mapping[str, Json] = MappingProxyType({})


class NotServed(Exception):
    """The API server does not serve what device allocation needs."""


@dataclass(frozen=True, slots=True)
class Served:
    """What is served."""

    kubernetes: str
    """The server's own version, such as v1.36.3."""
    release: str
    """The nearest release that is known here."""
    version: str
    """The version of resource.k8s.io."""
    taint_rules: Resource | None
    """The resource of DeviceTaintRules; None where they are not served."""
    emulated: str = ""
    """The release that the server behaves as, where it was started with --emulated-version; empty otherwise."""
    pod_groups: Mapping[str, str] = field(default_factory=dict)
    """Plural names of kinds of groups to the version in which each is used."""

    def resource(self, resource: Resource) -> Resource | None:
        """The resource in the version that is used here; None where it is not served."""
        if resource.plural in _OF_GROUPS and resource.group == api_resources.POD_GROUPS.group:
            version = self.pod_groups.get(resource.plural)
            return replace(resource, version=version) if version else None
        if resource.group != GROUP:
            return resource
        return self.taint_rules if resource.plural == _RULES else replace(resource, version=self.version)

    @property
    def claims(self) -> Resource:
        """Where claims are."""
        return api_resources.claims(self.version)

    @property
    def slices(self) -> Resource:
        """Where slices are."""
        return api_resources.slices(self.version)

    def features(self, overrides: Mapping[str, bool]) -> Features:
        """The gates that are taken to be in force: the release's, what is served, then the overrides.

        Raises UnknownGate for an override that the release does not have.
        """
        defaults = Features.of(self.release)
        has_taints = overrides.get(DEVICE_TAINTS, defaults.has(DEVICE_TAINTS))
        stage = defaults.release.gates.get(DEVICE_TAINT_RULES)
        is_served = self.taint_rules is not None
        gates = {DEVICE_TAINT_RULES: is_served and has_taints} if stage and not stage.is_locked else {}
        return Features.of(self.release, {**gates, **overrides})

    def __str__(self) -> str:
        rules = self.taint_rules.api_version if self.taint_rules else "not served"
        return f"{self.release_text}; {GROUP}/{self.version}; DeviceTaintRules: {rules}"

    @property
    def release_text(self) -> str:
        """The server's release, what it emulates, and how it is treated where it is not known here."""
        nearest = "" if self.is_known_release else f", treated as {self.release}, the nearest release known here"
        return f"{_server(self.kubernetes, self.emulated)}{nearest}"

    @property
    def is_known_release(self) -> bool:
        """Whether the release that the server behaves as is one that is known here."""
        behaves_as = self.emulated or self.kubernetes.removeprefix("v")
        return f"{behaves_as}.".startswith(f"{self.release}.")


async def discover(connection: Connection) -> Served:
    """What the server serves. Raises NotServed where devices cannot be allocated, else as `Connection.request` does."""
    version = await connection.request("GET", "/version")
    documents = await _documents(connection, GROUP)
    return served(version, documents, await _documents(connection, api_resources.POD_GROUPS.group))


LOOK_S = 60.0
"""How often it is looked whether the server serves what it did."""

_LOG = logging.getLogger(__name__)


class ServedSince:
    """Whether the server serves what it did at the start. trouble: what differs, so that only a restart helps."""

    def __init__(self, connection: Connection, at_start: Served) -> None:
        self.trouble = ""
        self._connection = connection
        self._at_start = at_start

    async def run(self) -> Never:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look now. A server that does not answer is told by the watches, and so is one that has lost a kind."""
        try:
            now = await discover(self._connection)
        except (CallFailed, NotServed):
            return
        except Exception:  # noqa: BLE001 - whatever it answers, it is looked at again
            _LOG.exception("cannot read what the API server serves")
            return
        differences = ", ".join(_differences(self._at_start, now))
        trouble = f"the API server was upgraded or configured anew, restart to follow it: {differences}"
        if differences and trouble != self.trouble:
            _LOG.warning("%s", trouble)
        self.trouble = trouble if differences else ""


def _differences(before: Served, now: Served) -> Iterator[str]:
    """All but a patch of the same release."""
    for name in (one.name for one in fields(Served) if one.name != "kubernetes"):
        old, new = (getattr(one, name) or "none" for one in (before, now))
        if old != new:
            yield f"{name.replace('_', ' ')} {old}, now {new}"


async def _documents(connection: Connection, group: str) -> Mapping[str, Json]:
    """The resource list of each version of a group."""
    api_group = await _document(connection, f"/apis/{segment(group)}")
    offered = {str(one.get("version")) for one in (api_group or {}).get("versions") or ()}
    documents = {
        name: await _document(connection, f"/apis/{segment(group)}/{segment(name)}") for name in sorted(offered)
    }
    return {name: document for name, document in documents.items() if document}


def served(version: Json, documents: Mapping[str, Json], of_scheduling: Mapping[str, Json] = _NO_DOCUMENTS) -> Served:
    """What follows from /version and from the resource list of each version of the group. Raises NotServed.

    of_scheduling: the same of scheduling.k8s.io.
    """
    kubernetes = str(version.get("gitVersion") or "unknown")
    plurals = _plurals(documents)
    usable = [name for name in VERSIONS if plurals.get(name, set()).issuperset(_NEEDED)]
    if not usable:
        raise NotServed(_not_served(_server(kubernetes, emulated_release(version)), sorted(plurals)))
    rules = [name for name in RULE_VERSIONS if _RULES in plurals.get(name, ())]
    taint_rules = api_resources.taint_rules(rules[0]) if rules else None
    release, emulated = nearest_release(version), emulated_release(version)
    return Served(kubernetes, release, usable[0], taint_rules, emulated, _newest_of_groups(_plurals(of_scheduling)))


def _plurals(documents: Mapping[str, Json]) -> Mapping[str, set[str]]:
    return {
        name: {str(found.get("name")) for found in document.get("resources") or ()}
        for name, document in documents.items()
    }


def _newest_of_groups(plurals: Mapping[str, set[str]]) -> Mapping[str, str]:
    """Each kind in the newest version that has it: 1.37 serves CompositePodGroups only in an older one."""
    newest: dict[str, str] = {}
    for name in pod_group.SERVED:
        for plural in _OF_GROUPS:
            if plural in plurals.get(name, ()):
                newest.setdefault(plural, name)
    return newest


def emulated_release(version: Mapping[str, object]) -> str:
    """The release that the server behaves as, such as 1.35; empty where that is its own.

    Source: k8s.io/component-base/compatibility; servers since 1.33 report it.
    """
    emulated = f"{version.get('emulationMajor')}.{version.get('emulationMinor')}"
    return emulated if _minor(emulated) not in (None, _minor(_own(version))) else ""


def _own(version: Mapping[str, object]) -> str:
    return f"{version.get('major')}.{version.get('minor')}"


def nearest_release(version: Mapping[str, object]) -> str:
    """The known release that is nearest to what the server of /version behaves as; the newest if it has none."""
    wanted = _minor(emulated_release(version) or _own(version))
    if wanted is None:
        return max(RELEASES, key=_order)
    return min(RELEASES, key=lambda name: (abs(_order(name)[1] - wanted[1]), _order(name)))


def _order(release: str) -> tuple[int, int]:
    parsed = _minor(release)
    assert parsed is not None, release
    return parsed


def _minor(text: str) -> tuple[int, int] | None:
    """Major and minor; vendors write a minor such as 34+."""
    major, _, minor = text.partition(".")
    minor = minor.rstrip("+")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


async def _document(connection: Connection, path: str) -> Json | None:
    """What stands at the path, None where nothing does."""
    try:
        return await connection.request("GET", path)
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
        return None


def _server(kubernetes: str, emulated: str) -> str:
    return f"Kubernetes {kubernetes}, emulating {emulated}" if emulated else f"Kubernetes {kubernetes}"


def _not_served(server: str, offered: list[str]) -> str:
    served = f"only in {', '.join(offered)}" if offered else "not at all"
    return (
        f"{server} serves {GROUP} {served}; one of {', '.join(VERSIONS)} is needed, with "
        f"{', '.join(_NEEDED)}: use Kubernetes 1.34 or later, or enable the feature gate DynamicResourceAllocation "
        f"and --runtime-config={GROUP}/v1beta1=true of the API server"
    )


# Lists every object of a cluster that allocation depends on, with read-only calls.


PAGE = 500
"""Objects of one call, as kubectl asks for."""

LIST_TIMEOUT_S = 60.0

_FORBIDDEN, _NOT_THERE = 403, 404
_PAST, _FUTURE = 410, 504
"""The API server does not know the moment any more, or not yet: then this kind is stored elsewhere."""


@dataclass(frozen=True, slots=True)
class ListedResource:
    """A resource with its objects.

    moment: the resource version as of which they were read; empty where nobody says so. problem: why there are none, or
    empty.
    """

    resource: Resource
    objects: Sequence[Json] = ()
    moment: str = ""
    problem: str = ""


async def dump(connection: Connection, served: Served, resources: Iterable[Resource]) -> AsyncIterator[ListedResource]:
    """Each resource that is served, one after the other. Raises CallFailed where devices or claims cannot be read.

    All are as of the moment of the first, as far as the API server still knows it: a pod and its claim go together.
    Any other that is not there or may not be read is left out.
    """
    moment = ""
    for resource in filter(None, map(served.resource, resources)):
        try:
            listed = await _all(connection, resource, moment)
        except ApiError as error:
            if resource.plural in _NEEDED or error.status not in (_FORBIDDEN, _NOT_THERE):
                raise
            listed = ListedResource(resource, problem=str(error))
        moment = moment or listed.moment
        yield listed


async def _all(connection: Connection, resource: Resource, moment: str) -> ListedResource:
    """All objects in all namespaces, as of the moment or, where that is empty or not known any more, as of now.

    A list that takes so long that its pages expire is begun again, in one piece.
    """
    paged = {"limit": str(PAGE)}
    if moment:
        try:
            return await _pages(
                connection, resource, {**paged, "resourceVersion": moment, "resourceVersionMatch": "Exact"}
            )
        except ApiError as error:
            if error.status not in (_PAST, _FUTURE):
                raise
    try:
        return await _pages(connection, resource, paged)
    except ApiError as error:
        if error.status != _PAST:
            raise
        return await _pages(connection, resource, {})


async def _pages(connection: Connection, resource: Resource, query: Mapping[str, str]) -> ListedResource:
    objects: list[Json] = []
    while True:
        page = _page(resource, await connection.text(resource.path(), query, LIST_TIMEOUT_S))
        # Objects in a list carry neither apiVersion nor kind.
        version = {"apiVersion": resource.api_version, "kind": resource.kind}
        objects.extend({**version, **one} for one in page.get("items") or ())
        metadata = page.get("metadata") or {}
        if not (token := metadata.get("continue")):
            return ListedResource(resource, objects, str(metadata.get("resourceVersion") or ""))
        query = {"limit": str(PAGE), "continue": str(token)}  # which names the moment as well


def _page(resource: Resource, text: bytes) -> Json:
    try:
        page = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unanswered(f"GET {resource.path()}", f"the response is not JSON: {error}", is_ambiguous=False) from error
    if not isinstance(page, dict):
        raise Unanswered(f"GET {resource.path()}", "the response is not a list of objects", is_ambiguous=False)
    return page
