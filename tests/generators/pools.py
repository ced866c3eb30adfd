"""Random nodes and the pools of devices that they reach, complete or not, of this generation or an older one."""

from tests.generators.draw import Draw, Json

MAX_DEVICES = 8
ZONES = ("east", "west")
POOLS = (("a.example", "pool-0"), ("a.example", "pool-1"), ("a.example", "pool-2"), ("b.example", "pool-0"))
NODE_OPERATIONS_FEATURE = "DRAOptionalNodeOperations"


def nodes(draw: Draw) -> list[Json]:
    """One to three nodes in two zones."""
    return [_node(draw, i) for i in range(draw.pick((1, 1, 1, 2, 2, 3)))]


def slices(draw: Draw, all_nodes: list[Json]) -> list[Json]:
    """The slices of one to four pools, in no particular order, with at most `MAX_DEVICES` devices that count."""
    result: list[Json] = []
    names = draw.some(POOLS, most=4)
    for share, (driver, pool) in enumerate(names):
        devices = MAX_DEVICES // len(names) + (share < MAX_DEVICES % len(names))
        result += GeneratedPool(draw, driver, pool, all_nodes).slices(draw.rng.randint((devices + 1) // 2, devices))
    draw.rng.shuffle(result)
    for i, name in enumerate(draw.rng.sample(range(10, 100), len(result))):
        result[i]["metadata"] = {"name": f"slice-{name}"}
    return result


def _node(draw: Draw, number: int) -> Json:
    name = f"node-{number}"
    node: Json = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": draw.pick(ZONES)}}}
    if draw.about("OptionalNodeOperations", 0.5):
        node["status"] = {"declaredFeatures": [NODE_OPERATIONS_FEATURE]}
    return node


class GeneratedPool:
    """Writes the slices of one pool."""

    def __init__(self, draw: Draw, driver: str, name: str, all_nodes: list[Json]) -> None:
        self.draw = draw
        self.driver = driver
        self.name = name
        self.nodes = all_nodes
        self.generation = draw.pick((1, 2, 2))
        self.partitions = draw.about("PartitionableDevices", 0.7)
        self.per_device = draw.about("PartitionableDevices", 0.3)
        self.node_selection = {"perDeviceNodeSelection": True} if self.per_device else self._node_selection()

    def slices(self, devices: int) -> list[Json]:
        """The slices of this pool: of devices, of counters, and what is left of another generation."""
        all_devices = [self._device(i) for i in range(devices)]
        if self.draw.about("InvalidPool", 0.1):
            self._spoil(all_devices)
        cut = self.draw.rng.randint(1, devices) if self.draw.chance(0.3) else devices
        parts = [part for part in (all_devices[:cut], all_devices[cut:]) if part]
        result = [self._slice({"devices": part}) for part in parts]
        if self.partitions:
            result.append(self._slice({"sharedCounters": self._counter_sets()}))
        count = len(result) + self._miscount()
        for one in result:
            one["spec"]["pool"]["resourceSliceCount"] = max(count, 1)
        return result + self._other_generations(all_devices)

    def _miscount(self) -> int:
        return self.draw.pick((1, 1, -1)) if self.draw.about("IncompletePool", 0.15) else 0

    def _slice(self, content: Json) -> Json:
        pool = {"name": self.name, "generation": self.generation, "resourceSliceCount": 1}
        spec = {"driver": self.driver, "pool": pool, **self.node_selection, **content}
        if "sharedCounters" in content and self.per_device:
            del spec["perDeviceNodeSelection"]
            spec["allNodes"] = True
        if self.draw.about("OptionalNodeOperations", 0.4):
            spec["skipNodeOperations"] = self.draw.pick((["*"], ["NodePrepareResources"]))
        return {"metadata": {}, "spec": spec}

    def _node_selection(self) -> Json:
        if self.draw.about("NodeSelector", 0.4):
            return {"nodeSelector": self._node_selector()}
        if self.draw.about("AllNodes", 0.6):
            return {"allNodes": True}
        return {"nodeName": self.draw.pick(self.nodes)["metadata"]["name"]}

    def _node_selector(self) -> Json:
        by_zone = {"key": "zone", "operator": "In", "values": self.draw.some(ZONES, most=2)}
        by_name = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-2"]}
        field = {"key": "metadata.name", "operator": "In", "values": [self.draw.pick(self.nodes)["metadata"]["name"]]}
        term: Json = {"matchExpressions": self.draw.some((by_zone, by_name), most=2)}
        if self.draw.chance(0.2):
            term["matchFields"] = [field]
        return {"nodeSelectorTerms": [term]}

    def _other_generations(self, all_devices: list[Json]) -> list[Json]:
        """A slice that a driver has not removed yet, or has written first, perhaps for other nodes."""
        if not self.draw.about("ObsoletePool", 0.3):
            return []
        other = self._slice({"devices": all_devices[:1]})
        other["spec"]["pool"]["generation"] += self.draw.pick((1, -1, -1)) if self.generation > 1 else 1
        if self.draw.chance(0.5) and not self.per_device:
            other["spec"] = {k: v for k, v in other["spec"].items() if k not in self.node_selection}
            other["spec"] |= self._node_selection()
        return [other]

    def _spoil(self, all_devices: list[Json]) -> None:
        """Makes the pool contradict itself."""
        spoiled = self.draw.pick(all_devices)
        if self.partitions and self.draw.chance(0.5):
            spoiled["consumesCounters"] = [{"counterSet": "set-9", "counters": {"cores": {"value": "1"}}}]
        else:
            spoiled["name"] = all_devices[0]["name"]

    def _counter_sets(self) -> list[Json]:
        cores, memory = self.draw.pick(("2", "4", "8")), self.draw.pick(("4Gi", "8Gi"))
        counters = {"cores": {"value": cores}, "memory": {"value": memory}}
        return [{"name": name, "counters": counters} for name in ("set-0", "set-1")]

    def _device(self, number: int) -> Json:
        device: Json = {"name": f"dev-{number}", "attributes": self._attributes()}
        if self.per_device:
            device |= self._node_selection()
        if self.partitions and self.draw.chance(0.8):
            device["consumesCounters"] = self._consumption()
        if self.draw.about("DeviceTaints", 0.3):
            device["taints"] = [_taint(self.draw) for _ in range(self.draw.pick((1, 1, 2)))]
        if self.draw.about("DeviceBindingAndStatus", 0.3):
            device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        if self.draw.about("DeviceBindingAndStatus", 0.15):
            device["bindsToNode"] = True
        return device | self._capacity()

    def _attributes(self) -> Json:
        draw = self.draw
        attributes: Json = {
            "model": {"string": draw.pick(("a", "a", "b"))},
            "numa": {"int": draw.pick((0, 1))},
            "std.example/root": {"string": draw.pick(("r0", "r1"))},
            "firmware": {"version": draw.pick(("1.0.0", "1.0.0", "1.0.0+b", "2.0.0"))},
        }
        if draw.chance(0.1):
            del attributes[draw.pick(tuple(attributes))]
        if draw.chance(0.05):
            attributes["numa"] = {"string": "0"}
        if draw.chance(0.05):
            attributes[f"{self.driver}/numa"] = attributes.pop("numa", {"int": 1})
        if draw.about("ListTypeAttributes", 0.9):
            attributes["std.example/roots"] = {"strings": draw.some(("r0", "r1", "r2"), most=2)}
            attributes["numas"] = draw.pick(({"ints": draw.some((0, 1, 2), most=3)}, {"int": draw.pick((0, 1))}))
        return attributes

    def _consumption(self) -> list[Json]:
        names = self.draw.pick((("set-0",), ("set-0",), ("set-1",), ("set-0", "set-1")))
        return [self._consumes(name) for name in names]

    def _consumes(self, counter_set: str) -> Json:
        counters = {"cores": {"value": self.draw.pick(("1", "2", "4"))}}
        if self.draw.chance(0.3):
            counters["memory"] = {"value": self.draw.pick(("1Gi", "4Gi"))}
        consumption: Json = {"counterSet": counter_set, "counters": counters}
        if self.draw.about("CompatibilityGroups", 0.6):
            consumption["compatibilityGroups"] = self.draw.some(("g0", "g1", "g2"), most=2)
        return consumption

    def _capacity(self) -> Json:
        if self.draw.about("ConsumableCapacity", 0.9):
            return self._shared_capacity() if self.draw.chance(0.7) else {"capacity": self._amounts()}
        return {"capacity": self._amounts()} if self.draw.chance(0.5) else {}

    def _shared_capacity(self) -> Json:
        capacity = self._amounts()
        for name, policy in (("memory", _memory_policy(self.draw)), ("bandwidth", _bandwidth_policy(self.draw))):
            if name in capacity and self.draw.chance(0.7):
                capacity[name]["requestPolicy"] = policy
        return {"capacity": capacity, "allowMultipleAllocations": True}

    def _amounts(self) -> Json:
        amounts = (("memory", ("1Gi", "2Gi", "4Gi")), ("bandwidth", ("1", "2")))
        return {name: {"value": self.draw.pick(values)} for name, values in self.draw.some(amounts, most=2)}


def _taint(draw: Draw) -> Json:
    effect = draw.pick(("NoSchedule", "NoSchedule", "NoExecute", "None", "Unknown"))
    return {"key": draw.pick(("maintenance", "broken")), "value": draw.pick(("yes", "no")), "effect": effect}


def _memory_policy(draw: Draw) -> Json:
    default = {"default": draw.pick(("0", "512Mi", "1Gi", "1Gi"))}
    span = {"min": "1Gi", "step": "512Mi"} if draw.chance(0.5) else {"min": "1Gi"}
    if draw.chance(0.3):
        span["max"] = "2Gi"
    values = {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}
    return draw.pick((default, {"default": "1Gi", "validRange": span}, values))


def _bandwidth_policy(draw: Draw) -> Json:
    if draw.about("FractionalCapacityRange", 0.8):
        return {"default": "200m", "validRange": {"min": "200m", "step": draw.pick(("100m", "1m")), "max": "1"}}
    return draw.pick(({"default": "1"}, {"default": "1", "validRange": {"min": "1", "step": "1"}}))
