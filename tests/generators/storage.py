"""Random volumes: what pods use, claims bound or not, disks, classes, and what the CSI drivers of nodes can take."""

from itertools import count

from tests.generators.draw import Draw, Json
from tests.generators.workloads import HOST, ZONE

DRIVER = "d.example"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = "volume.kubernetes.io/selected-node"
SIZES = ("1Gi", "2Gi", "5Gi", "9Gi")
WAITING, STATIC, ZONAL, AT_ONCE = "waiting", "static", "zonal", "at-once"
DISKS: tuple[Json, ...] = (
    {"gcePersistentDisk": {"pdName": "disk"}},
    {"gcePersistentDisk": {"pdName": "disk", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "disk", "readOnly": True}},
    {"iscsi": {"iqn": "iqn.2026-11.example:disk", "lun": 0, "targetPortal": "10.0.0.9"}},
    {"rbd": {"monitors": ["m1", "m2"], "image": "disk", "pool": "rbd"}},
    {"rbd": {"monitors": ["m2"], "image": "disk", "pool": "rbd", "readOnly": True}},
    {"csi": {"driver": "secrets.example"}},
    {"emptyDir": {}},
    {"image": {"reference": "registry.example/big"}},
)


class Storage:
    """Gives volumes to pods and remembers the claims and disks behind."""

    def __init__(self, draw: Draw, nodes: list[str]) -> None:
        self.draw = draw
        self.nodes = nodes
        self.claims: dict[tuple[str, str], Json] = {}
        self.disks: list[Json] = []
        self._numbers = count()

    def give(self, pod: Json) -> None:
        """None to two volumes."""
        if not self.draw.about("Volumes", 0.85):
            return
        pod["spec"]["volumes"] = [
            {"name": f"v{number}", **self._volume(pod, f"v{number}")} for number in range(self.draw.pick((1, 1, 2)))
        ]

    def objects(self) -> Json:
        """All that is about storage."""
        if "Volumes" not in self.draw.aspects:
            return {}
        for _ in range(self.draw.rng.randint(0, 3)):
            self._disk({"storageClassName": STATIC}, self.draw.pick(("Available",) * 5 + ("Released",)))
        return {
            "persistentVolumeClaims": list(self.claims.values()),
            "persistentVolumes": self.disks,
            "storageClasses": _classes(self.draw),
            "csiNodes": [self._csi_node(node) for node in self.nodes if self.draw.chance(0.7)],
            "csiDrivers": [{"metadata": {"name": DRIVER}, "spec": self._driver_spec()}]
            if self.draw.chance(0.95)
            else [],
            "csiStorageCapacities": [self._capacity(zone) for zone in "abc" if self.draw.chance(0.6)],
            "volumeAttachments": [self._attachment(disk) for disk in self.disks if self.draw.chance(0.15)],
        }

    def _volume(self, pod: Json, name: str) -> Json:
        if self.draw.chance(0.3):
            return dict(self.draw.pick(DISKS))
        metadata = pod["metadata"]
        if self.draw.chance(0.25):
            owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            is_own = metadata["name"] != "new" or self.draw.chance(0.7)
            owners = [{**owner, "controller": True}] if is_own else []
            self._claim(pod, f"{metadata['name']}-{name}", {"ownerReferences": owners})
            return {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
        # Names differ by namespace: kube-scheduler mixes up claims of one name (docs/differences.md).
        claim = f"{self.draw.pick(('data', 'logs', metadata['name']))}-{metadata['namespace']}"
        self._claim(pod, claim, {})
        return {"persistentVolumeClaim": {"claimName": claim, "readOnly": self.draw.chance(0.1)}}

    def _claim(self, pod: Json, name: str, metadata: Json) -> None:
        """The claim, unless there is one of that name; it is missing at times, and bound where the pod has a node."""
        key = (pod["metadata"]["namespace"], name)
        if key in self.claims or self.draw.chance(0.1):
            return
        of = self.draw.pick((WAITING, WAITING, STATIC, STATIC, ZONAL, AT_ONCE, "unknown"))
        spec: Json = {
            "accessModes": [self.draw.pick(("ReadWriteOnce",) * 2 + ("ReadWriteMany", "ReadWriteOncePod"))],
            "resources": {"requests": {"storage": self.draw.pick(SIZES)}},
            **({"storageClassName": of} if self.draw.chance(0.97) else {}),
        }
        own = {"namespace": key[0], "name": name, "uid": "-".join(key), **metadata}
        claim = {"metadata": own, "spec": spec, "status": {"phase": "Pending"}}
        self.claims[key] = claim
        if "nodeName" in pod["spec"] or self.draw.chance(0.4):
            self._bind(claim)
        elif self.draw.chance(0.1):
            own["annotations"] = {SELECTED: self.draw.pick(self.nodes)}
        if self.draw.chance(0.05):
            own |= {"deletionTimestamp": "2026-11-20T00:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}

    def _bind(self, claim: Json) -> None:
        own, spec = claim["metadata"], claim["spec"]
        claim["status"] = {"phase": "Lost" if self.draw.chance(0.08) else "Bound"}
        if self.draw.chance(0.95):
            own["annotations"] = dict(BOUND)
        reference = {"kind": "PersistentVolumeClaim", **{key: own[key] for key in ("namespace", "name", "uid")}}
        spec["volumeName"] = self._disk({"claimRef": reference, "storageClassName": spec.get("storageClassName", "")})
        if self.draw.chance(0.3):
            self.disks.pop()

    def _disk(self, spec: Json, phase: str = "Bound") -> str:
        name, draw = f"pv{next(self._numbers)}", self.draw
        where = draw.pick((None, *((ZONE, zone) for zone in "abc"), *((HOST, node) for node in self.nodes[:3])))
        labels = {ZONE: draw.pick(("a", "b", "b__c"))} if draw.chance(0.6) else {}
        source = {"csi": {"driver": DRIVER, "volumeHandle": draw.pick((name, name, "shared"))}}
        self.disks.append(
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {
                    "capacity": {"storage": draw.pick(SIZES)},
                    "accessModes": draw.some(("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"), most=3),
                    **(source if draw.chance(0.8) else {"local": {"path": "/disk"}}),
                    **({"volumeMode": "Block"} if draw.chance(0.05) else {}),
                    **spec,
                    **({"nodeAffinity": {"required": {"nodeSelectorTerms": [_in(*where)]}}} if where else {}),
                },
                "status": {"phase": phase},
            }
        )
        return name

    def _driver_spec(self) -> Json:
        is_required = {"preventPodSchedulingIfMissing": True} if self.draw.chance(0.2) else {}
        return {"storageCapacity": self.draw.chance(0.5), **is_required}

    def _csi_node(self, node: str) -> Json:
        limit = {"allocatable": {"count": self.draw.pick((1, 1, 2, 5))}} if self.draw.chance(0.7) else {}
        driver = {"name": DRIVER, "nodeID": node, "topologyKeys": [], **limit}
        return {"metadata": {"name": node}, "spec": {"drivers": [driver] if self.draw.chance(0.85) else []}}

    def _capacity(self, zone: str) -> Json:
        most = {"maximumVolumeSize": self.draw.pick((*SIZES, "20Gi"))} if self.draw.chance(0.3) else {}
        return {
            "metadata": {"name": f"capacity-{zone}", "namespace": "kube-system"},
            "storageClassName": self.draw.pick((WAITING, WAITING, ZONAL)),
            "capacity": self.draw.pick((*SIZES, "20Gi", "30Gi")),
            "nodeTopology": {"matchLabels": {ZONE: zone}},
            **most,
        }

    def _attachment(self, disk: Json) -> Json:
        source = {"persistentVolumeName": disk["metadata"]["name"]}
        spec = {"attacher": DRIVER, "nodeName": self.draw.pick(self.nodes), "source": source}
        return {"metadata": {"name": f"attached-{source['persistentVolumeName']}"}, "spec": spec}


def _classes(draw: Draw) -> list[Json]:
    waits, zones = "WaitForFirstConsumer", draw.some("abc", most=2)
    allowed = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]}
    return [
        {"metadata": {"name": WAITING}, "provisioner": DRIVER, "volumeBindingMode": waits},
        {"metadata": {"name": STATIC}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": waits},
        {"metadata": {"name": ZONAL}, "provisioner": DRIVER, "volumeBindingMode": waits, **allowed},
        {"metadata": {"name": AT_ONCE}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"},
    ]


def _in(key: str, value: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
