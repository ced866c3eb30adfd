"""Storage of a world: classes, volumes and claims as administrators and users write them, and a provisioner."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.controlplane.rest import (
    CSI_CAPACITY,
    CSI_DRIVER,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_CLAIM,
    Json,
)
from tests.integration.live.world import NAMESPACE, World, an_object

PROVISIONER = "d.example"
LOCAL = "local"
MADE = "made"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NAMED_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_HOST = "kubernetes.io/hostname"
_MODES = ["ReadWriteOnce"]


class Storage:
    """All of one world's. Its class `local` has volumes that are there, and `made` those that PROVISIONER makes.

    Of both the claims wait for their pod.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._api = world.api
        self.a_class(LOCAL, "kubernetes.io/no-provisioner")
        self.a_class(MADE, PROVISIONER)

    def a_class(self, name: str, provisioner: str) -> None:
        """A class whose claims wait for their pod."""
        kind = {"apiVersion": STORAGE_CLASS.api_version, "kind": STORAGE_CLASS.kind, "metadata": {"name": name}}
        self._api.create({**kind, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})

    # -- what is there

    def a_volume(self, name: str, *nodes: str, size: str = "1Gi", storage_class: str = LOCAL, **spec: object) -> Json:
        """A volume that these nodes reach."""
        term = {"matchExpressions": [{"key": _HOST, "operator": "In", "values": list(nodes)}]}
        fields = {
            "storageClassName": storage_class,
            "capacity": {"storage": size},
            "accessModes": _MODES,
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            **spec,
        }
        return self._api.create(an_object(VOLUME, name, fields))

    def a_free_volume(self, name: str, *nodes: str, size: str = "1Gi") -> Json:
        """The same, once kube-controller-manager says that it is available."""
        self.a_volume(name, *nodes, size=size)
        return self.volume_when(name, lambda volume: phase_of(volume) == "Available")

    def a_bound_volume(self, name: str, *nodes: str) -> None:
        """A claim of that name, and the volume that is bound to it."""
        volume = f"volume-of-{name}"
        self.a_volume(volume, *nodes, claimRef={"namespace": NAMESPACE, "name": name})
        self.a_claim(name, volumeName=volume)
        self.bound(name)

    def a_claim(
        self,
        name: str = "v",
        storage_class: str = LOCAL,
        *,
        size: str = "1Gi",
        modes: Sequence[str] = _MODES,
        **spec: object,
    ) -> Json:
        """A claim for a volume."""
        asked = {"resources": {"requests": {"storage": size}}, "accessModes": list(modes)}
        return self._api.create(
            an_object(VOLUME_CLAIM, name, {"storageClassName": storage_class, **asked, **spec}, NAMESPACE)
        )

    def a_pod(self, name: str, *volumes: str, claims: Sequence[str] = (), **spec: Any) -> Json:
        """A pod with volumes of these claims. claims: for devices."""
        mounted = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in volumes]
        return self._world.a_pod(name, *claims, volumes=mounted, **spec)

    def publishes_capacity(self) -> None:
        """The driver says how much it can make where; until it does, that is nothing."""
        self._api.create(an_object(CSI_DRIVER, PROVISIONER, {"storageCapacity": True, "attachRequired": False}))

    def a_capacity(self, node: str, amount: str) -> Json:
        """What the driver can make for the node."""
        kind = {"apiVersion": CSI_CAPACITY.api_version, "kind": CSI_CAPACITY.kind}
        topology = {"matchLabels": {_HOST: node}}
        metadata = {"name": f"of-{node}", "namespace": NAMESPACE}
        about = {"storageClassName": MADE, "nodeTopology": topology, "capacity": amount}
        return self._api.create({**kind, "metadata": metadata, **about})

    # -- what comes

    def volume_when(self, name: str, holds: Callable[[Json], bool]) -> Json:
        found = self._api.await_all(VOLUME, lambda all_: any(map(holds, _named(all_, name))))
        return _named(found, name)[0]

    def claim_when(self, name: str, holds: Callable[[Json], bool]) -> Json:
        found = self._api.await_all(VOLUME_CLAIM, lambda all_: any(map(holds, _named(all_, name))), NAMESPACE)
        return _named(found, name)[0]

    def bound(self, name: str = "v") -> str:
        """The volume of the claim, as soon as it is bound."""
        return str(self.claim_when(name, lambda claim: phase_of(claim) == "Bound")["spec"]["volumeName"])

    def asked_for(self, name: str = "v", *but: str) -> str:
        """The node for which a volume of the claim is to be made, as soon as one is named that is none of these."""
        named = self.claim_when(name, lambda claim: selected_node(claim) not in ("", *but))
        return selected_node(named)

    # -- what the provisioner does

    def make(self, name: str = "v") -> str:
        """Make the volume for which the claim asks, as soon as it does; its node."""
        node = self.asked_for(name)
        claim = self._api.get(VOLUME_CLAIM, name, NAMESPACE)
        reference = {key: claim["metadata"][key] for key in ("namespace", "name", "uid", "resourceVersion")}
        named = {"apiVersion": VOLUME_CLAIM.api_version, "kind": VOLUME_CLAIM.kind}
        size = claim["spec"]["resources"]["requests"]["storage"]
        self.a_volume(f"made-for-{name}", node, size=size, storage_class=MADE, claimRef={**named, **reference})
        return node

    def ask_for_another_node(self, name: str = "v") -> str:
        """As where the node has no space left: take the annotation away, once it is there; what it said.

        A provisioner acts when kube-controller-manager has named it in the claim. Before, both would write the claim.
        """
        claim = self.claim_when(name, lambda claim: bool(selected_node(claim) and _provisioner(claim) == PROVISIONER))
        node = selected_node(claim)
        kept = {key: value for key, value in claim["metadata"]["annotations"].items() if key != SELECTED_NODE}
        self._replace(claim, annotations=kept)
        return node

    def _replace(self, claim: Json, **metadata: object) -> None:
        self._api.replace({**_kind(VOLUME_CLAIM), **claim, "metadata": {**claim["metadata"], **metadata}})


def _kind(kind: tuple[str, str]) -> Mapping[str, str]:
    return {"apiVersion": kind[0], "kind": kind[1]}


def selected_node(claim: Json) -> str:
    """The node for which a volume is to be made, "" for none."""
    return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


def _provisioner(claim: Json) -> str:
    return str(claim["metadata"].get("annotations", {}).get(NAMED_PROVISIONER, ""))


def phase_of(found: Json) -> str:
    return str(found.get("status", {}).get("phase", ""))


def _named(objects: Sequence[Json], name: str) -> list[Json]:
    return [one for one in objects if one["metadata"]["name"] == name]
