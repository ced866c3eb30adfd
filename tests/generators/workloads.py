"""Random pods, with all that decides where they go but volumes and devices, and the Services and controllers above."""

from tests.generators.draw import Draw, Json

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
NAMESPACES: dict[str, dict[str, str]] = {"default": {}, "team-a": {"team": "a"}, "team-b": {"team": "b"}}
APPS, TIERS = ("web", "db", "cache"), ("front", "back")
KEYS = (ZONE, ZONE, HOST, RACK)
IMAGES = ("registry.example/small:1", "registry.example/big", "registry.example/other:2")
CONTROLLERS = {"replicationControllers": "v1", "replicaSets": "apps/v1", "statefulSets": "apps/v1"}
KINDS = {"replicationControllers": "ReplicationController", "replicaSets": "ReplicaSet", "statefulSets": "StatefulSet"}


def pod_named(draw: Draw, name: str) -> Json:
    """A pod that is on no node."""
    namespace = draw.pick(("default", "default", "team-a", "team-b"))
    labels = {"app": draw.pick(APPS), **({"tier": draw.pick(TIERS)} if draw.chance(0.6) else {})}
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "labels": labels}
    if draw.about("Spread", 0.3):
        metadata["ownerReferences"] = [_owner(draw)]
    return {"metadata": metadata, "spec": _spec(draw), "status": {}}


def services(draw: Draw) -> Json:
    """Some Services, one of them without a selector."""
    if not draw.about("Spread", 0.5):
        return {}
    selectors = [None, {}, {"app": "web"}, {"app": "db"}, {"tier": "back"}, {"app": "web", "tier": "front"}]
    return {
        "services": [
            {
                "metadata": {"name": f"service-{number}", "namespace": draw.pick(tuple(NAMESPACES))},
                "spec": {"selector": selector} if selector is not None else {},
            }
            for number, selector in enumerate(draw.some(selectors, most=4))
        ]
    }


def controllers(draw: Draw) -> Json:
    """In each namespace a controller `owner` of some kinds."""
    if "Spread" not in draw.aspects:
        return {}
    return {
        kind: [_controller(draw, kind, namespace) for namespace in NAMESPACES if draw.chance(0.8)]
        for kind in CONTROLLERS
    }


def _controller(draw: Draw, kind: str, namespace: str) -> Json:
    labels = draw.pick(({"app": "web"}, {"app": "db", "tier": "back"}))
    selector = labels if kind == "replicationControllers" else draw.pick(({"matchLabels": labels}, _selector(draw)))
    metadata = {"name": "owner", "namespace": namespace, "uid": f"{kind}-{namespace}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main"}]}}
    return {"metadata": metadata, "spec": {"replicas": 0, "selector": selector, "template": template}}


def _owner(draw: Draw) -> Json:
    kind = draw.pick(tuple(CONTROLLERS))
    return {
        "apiVersion": CONTROLLERS[kind],
        "kind": KINDS[kind],
        "name": "owner",
        "uid": kind,
        "controller": draw.chance(0.9),
    }


def _spec(draw: Draw) -> Json:
    written = {
        "schedulerName": "default-scheduler",
        "containers": [_container(draw, f"main-{number}") for number in range(draw.pick((1, 1, 2)))],
        "priority": draw.pick((0, 0, 10, 100)),
        **_requests(draw),
        "affinity": _affinity(draw),
        "topologySpreadConstraints": _spread(draw),
    }
    if draw.about("Nodes", 0.4):
        effect = draw.pick(({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}, {"effect": "PreferNoSchedule"}))
        how = draw.pick(({"operator": "Exists"}, {"operator": "Equal", "value": "db"}, {"value": "ml"}))
        written["tolerations"] = [{"key": "dedicated", **how, **effect}]
    if draw.about("Nodes", 0.15):
        written["nodeSelector"] = {"pool": draw.pick(("cpu", "gpu"))}
    if draw.about("Nodes", 0.1):
        written |= {"hostNetwork": True, "hostUsers": draw.chance(0.5)}
    return {name: value for name, value in written.items() if value}


def _container(draw: Draw, name: str) -> Json:
    asked: Json = {}
    if draw.chance(0.8):
        asked["cpu"] = draw.pick(("100m", "500m", "1", "2") if "Requests" in draw.aspects else ("100m", "250m"))
    if draw.chance(0.8):
        asked["memory"] = draw.pick(("128Mi", "1Gi", "3Gi") if "Requests" in draw.aspects else ("128Mi", "100M"))
    extended = {"example.com/card": draw.pick("12")} if draw.about("Requests", 0.25) else {}
    container: Json = {
        "name": name,
        "image": draw.pick(IMAGES),
        "resources": {"requests": asked | extended, "limits": extended},
    }
    if draw.about("Nodes", 0.2):
        port = {"hostPort": draw.pick((80, 8080)), "protocol": draw.pick(("TCP", "UDP"))}
        address = draw.pick(({}, {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}))
        container["ports"] = [{"containerPort": 80, **port, **address}]
    if draw.about("Nodes", 0.15):
        codes = {"operator": "In", "values": [7]}
        container["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": codes}]
        container["restartPolicy"] = "Never"
    return container


def _requests(draw: Draw) -> Json:
    """What else a pod may ask for: containers that go before, overhead, and requests of the pod as a whole."""
    found: Json = {}
    if draw.about("Requests", 0.3):
        again = draw.pick(({}, {"restartPolicy": "Always"}))
        found["initContainers"] = [{**_container(draw, "init-0"), **again}, _container(draw, "init-1")]
    if draw.about("Requests", 0.15):
        found["overhead"] = {"cpu": "250m", "memory": "64Mi"}
    if draw.about("Requests", 0.15):
        found["resources"] = {"requests": draw.pick(({"cpu": "3"}, {"cpu": "4", "memory": "8Gi"}))}
    return found


def _affinity(draw: Draw) -> Json:
    found = {"nodeAffinity": _node_affinity(draw), "podAffinity": {}, "podAntiAffinity": {}}
    for name, share in (("podAffinity", 0.35), ("podAntiAffinity", 0.45)):
        if draw.about("Affinity", share):
            found[name]["requiredDuringSchedulingIgnoredDuringExecution"] = _terms(draw)
        if draw.about("Affinity", 0.4):
            preferred = [{"weight": draw.pick((1, 10, 100)), "podAffinityTerm": one} for one in _terms(draw)]
            found[name]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {name: value for name, value in found.items() if value}


def _node_affinity(draw: Draw) -> Json:
    found: Json = {}
    if draw.about("Nodes", 0.15):
        required = [_node_term(draw) for _ in range(draw.pick((1, 2)))]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}
    if draw.about("Nodes", 0.3):
        preferred = [{"weight": draw.pick((1, 50)), "preference": _node_term(draw)} for _ in range(2)]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return found


def _node_term(draw: Draw) -> Json:
    by_name = {
        "key": "metadata.name",
        "operator": draw.pick(("In", "In", "NotIn")),
        "values": [draw.pick(("n0", "n1", "n2"))],
    }
    by_label = draw.pick(
        (
            {"key": ZONE, "operator": "In", "values": ["a", "b"]},
            {"key": "pool", "operator": "NotIn", "values": ["gpu"]},
            {"key": RACK, "operator": "Exists"},
            {"key": RACK, "operator": "DoesNotExist"},
        )
    )
    return {"matchFields": [by_name]} if draw.chance(0.2) else {"matchExpressions": [by_label]}


def _terms(draw: Draw) -> list[Json]:
    return [_term(draw) for _ in range(draw.pick((1, 1, 1, 2)))]


def _term(draw: Draw) -> Json:
    namespaces: tuple[Json, ...] = ({}, {}, {"matchLabels": {"team": draw.pick("ab")}})
    found: Json = {"topologyKey": draw.pick(KEYS)}
    if draw.chance(0.97):
        found["labelSelector"] = _senseless(draw) if draw.chance(0.02) else _selector(draw)
    if draw.chance(0.2):
        found["namespaces"] = draw.some(tuple(NAMESPACES), most=2)
    if draw.chance(0.3):
        found["namespaceSelector"] = draw.pick(namespaces)
    return found


def _selector(draw: Draw) -> Json:
    if draw.chance(0.05):
        return {}
    if draw.chance(0.5):
        return {"matchLabels": {"app": draw.pick(APPS)}}
    return {"matchExpressions": [_expression(draw)]}


def _senseless(draw: Draw) -> Json:
    """A selector that the API server would refuse today."""
    wrong: Json = draw.pick(({"operator": "In"}, {"operator": "Near"}, {"operator": "Exists", "values": ["web", "db"]}))
    return {"matchExpressions": [_expression(draw), {"key": "app", **wrong}]}


def _expression(draw: Draw) -> Json:
    if draw.chance(0.5):
        return {"key": "tier", "operator": draw.pick(("Exists", "DoesNotExist"))}
    return {"key": "app", "operator": draw.pick(("In", "NotIn")), "values": draw.some(APPS, most=2)}


def _spread(draw: Draw) -> list[Json]:
    if not draw.about("Spread", 0.6):
        return []
    keys = (ZONE, HOST, RACK) if draw.chance(0.3) else (ZONE, HOST)
    kinds = [(key, how) for key in keys for how in ("DoNotSchedule", "ScheduleAnyway")]
    return [_constraint(draw, *kind) for kind in draw.some(kinds, most=3)]


def _constraint(draw: Draw, key: str, unsatisfiable: str) -> Json:
    found: Json = {"maxSkew": draw.pick((1, 1, 1, 2)), "topologyKey": key, "whenUnsatisfiable": unsatisfiable}
    if draw.chance(0.97):
        is_listed = "Nominated" in draw.aspects  # docs/differences.md: the empty selector beside promised pods
        found["labelSelector"] = (_selector(draw) or {"matchLabels": {"app": "web"}}) if is_listed else _selector(draw)
        if draw.chance(0.2):
            found["matchLabelKeys"] = [draw.pick(("tier", "version"))]
    if unsatisfiable == "DoNotSchedule" and draw.chance(0.25):
        found["minDomains"] = draw.pick((1, 2, 3, 4))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw.chance(0.3):
            found[policy] = draw.pick(("Honor", "Ignore"))
    return found
