"""An odd object of each kind beside good ones: what is told of it on the way is not what the API server holds.

Real objects are marked by an annotation. The proxy puts something else in its place, for every reader of ours.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import product
from random import Random

from tests.controlplane.faults import Rewrite, refuse
from tests.controlplane.rest import CLAIM, CLASS, NODE, POD, SLICE, ApiError, Json, Kind
from tests.integration.live.world import NAMESPACE, World, a_device, a_request, an_object
from tests.odd_objects import QUANTITIES, VALUES, fields, nested, replaced

ODD = "odd"
KINDS: Mapping[Kind, str] = {NODE: "", POD: NAMESPACE, CLAIM: NAMESPACE, CLASS: "", SLICE: ""}
RESOURCES = ("nodes", "pods", "resourceclaims", "deviceclasses", "resourceslices")
_WATCHED = "/(nodes|pods|resourceclaims|deviceclasses|resourceslices|devicetaintrules|namespaces)$"
_AT_ONCE = 8
_MARK = b'"odd":"here"'

Change = Callable[[bytes], bytes]


def _in_place_of_the_annotation(value: str) -> Change:
    return lambda text: text.replace(_MARK, f'"odd":{value}'.encode())


def _in_metadata(field: str, value: str) -> Change:
    """The field comes once more, and the last one counts."""
    again = f'"odd":"x"}},"{field}":{value},"was":{{"a":"b"'.encode()
    return lambda text: text.replace(_MARK, again)


def spec_of_no_shape(text: bytes) -> bytes:
    """The spec of each odd object is a number."""
    first, *odd = text.split(_MARK)
    return _MARK.join([first, *(part.replace(b'"spec":{', b'"spec":7,"was":{', 1) for part in odd)])


CHANGES: Mapping[str, Change] = {
    "deep": _in_place_of_the_annotation(nested(300)),
    "deeper": _in_place_of_the_annotation(nested(5000)),
    "surrogate": _in_place_of_the_annotation('"\\ud800"'),
    "list": _in_place_of_the_annotation(str([7] * 10_000)),
    "labels": _in_metadata("labels", "[7]"),
    "owners": _in_metadata("ownerReferences", '{"a":7}'),
    "name": _in_metadata("name", "7"),
    "namespace": _in_metadata("namespace", "[]"),
    "uid": _in_metadata("uid", "null"),
    "version": _in_metadata("resourceVersion", "7"),
    "spec": spec_of_no_shape,
}
"""By name: what is made of each text that tells of odd objects."""


class OddWorld:
    """Good nodes and devices, and what is odd beside them. scheduler: for whose pods the program allocates."""

    def __init__(self, world: World, scheduler: str) -> None:
        self.rewrite = Rewrite()
        self._world = world
        self._scheduler = scheduler
        self._touched = 0
        world.a_cluster(devices=len(CHANGES) + 2)
        for kind, namespace in KINDS.items():
            obj = an_object(kind, ODD, _SPECS[kind], namespace)
            world.api.create({**obj, "metadata": {**obj["metadata"], "annotations": {"odd": "here"}}})
        self._rewrite_all()
        world.proxy.cut_watches()

    def tell(self, change: Change) -> None:
        """From now on every odd object is told so, and has changed."""
        self.rewrite.change = change
        self._touched += 1
        for kind, namespace in KINDS.items():
            obj = self._world.api.get(kind, ODD, namespace)
            labels = {**obj["metadata"].get("labels", {}), "touched": str(self._touched)}
            named = {"apiVersion": kind.api_version, "kind": kind.kind}
            self._world.api.replace({**named, **obj, "metadata": {**obj["metadata"], "labels": labels}})

    def place(self, name: str) -> None:
        """A good pod with a good claim is bound, and the program is ready afterwards."""
        self._world.a_claim(name)
        container = {"name": "c", "image": "none"}
        claims = [{"name": "c", "resourceClaimName": name}]
        spec = {"schedulerName": self._scheduler, "containers": [container], "resourceClaims": claims}
        self._world.api.create(an_object(POD, name, spec, NAMESPACE))
        self._world.bound(name)
        self._world.program.await_readyz()

    def refused(self) -> Mapping[str, float]:
        """How many objects of each resource the program could not read."""
        series = "dra_scheduler_watch_refused_objects"
        return {one: self._world.metric(f'{series}{{resource="{one}"}}') for one in RESOURCES}

    def list_by_pages(self) -> None:
        """From now on the API server lists by pages only."""
        self._world.proxy.forget_rules()
        refused = refuse(400, "BadRequest")
        self._world.proxy.on("GET", "", refused, where=lambda one: "sendInitialEvents" in one.query, times=None)
        self._rewrite_all()

    def _rewrite_all(self) -> None:
        self._world.proxy.on("GET", _WATCHED, self.rewrite, times=None)

    def end(self) -> None:
        """All is told as it is again."""
        self.rewrite.change = bytes
        self._world.proxy.forget_rules()
        self._world.proxy.cut_watches()


_SPECS: Mapping[Kind, Json] = {
    NODE: {"unschedulable": True},
    POD: {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none"}]},
    CLAIM: {"devices": {"requests": [a_request()]}},
    CLASS: {"selectors": [{"cel": {"expression": "true"}}]},
    SLICE: {
        "driver": "odd.example",
        "pool": {"name": ODD, "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [a_device()],
    },
}


def what_the_api_server_takes(world: World, objects: Mapping[Kind, Json], number: int) -> int:
    """Create so many odd objects, by chance, and say how many of them the API server takes.

    objects: a good one of each kind; the odd ones have another value in one field, and a name of their own.
    """
    cases = [
        (kind, replaced(_renamed(obj, f"odd-{position}"), path, value))
        for kind, obj in objects.items()
        for position, (path, value) in enumerate(product(fields(obj), (*VALUES.values(), *QUANTITIES)))
        if path not in (("metadata",), ("metadata", "name"), ("metadata", "namespace"))
    ]

    def is_taken(case: tuple[Kind, bytes]) -> bool:
        kind, text = case
        try:
            world.api.create_text(kind, KINDS[kind], text)
        except ApiError as error:
            if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return False
        return True

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(is_taken, Random(number).sample(cases, number)))  # noqa: S311 - the same ones each time


def _renamed(obj: Json, name: str) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "name": name}}
