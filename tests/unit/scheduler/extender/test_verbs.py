"""What the verbs answer, from the body of a call to the body of its answer."""

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from allocator.bits import Mask
from allocator.gates import Features
from allocator.model import Allocation, Claim
from cel import Cancelled
from cel.values.quantity import Quantity
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.time_limits import CHEAP_FIRST, FACTOR, OTHERS_FIRST, RECENT_S, REST, DecisionTimeLimit
from scheduler.extender.bind import Binds, ExpectedBind
from scheduler.extender.poke import Poke
from scheduler.extender.question import JudgedNode
from scheduler.extender.verbs import Verbs
from scheduler.extender.wire import ExtenderBindingArgs
from scheduler.kinds import pod_of
from scheduler.output.time_line import DecisionLog
from scheduler.runtime.server import Malformed
from tests.builders import (
    a_claim,
    a_class,
    a_node,
    a_request,
    a_result,
    a_user,
    an_allocated_claim,
    an_alternative,
    first_available,
    kubernetes,
    named,
    watched,
)
from tests.unit.scheduler.extender.clusters import OURS, a_cluster

BINDING = {"PodName": "pod", "PodNamespace": "default", "PodUID": "uid-pod", "Node": "node-0"}
NOT_YET = "the caches are not filled yet"


@dataclass
class Written:
    """Stands where pods are bound: takes down what it is asked for."""

    under_way: set[str] = field(default_factory=set)
    bound: list[ExtenderBindingArgs] = field(default_factory=list)
    freed: list[tuple[str, Sequence[Claim]]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    problem: str = ""
    expected: ExpectedBind = field(default_factory=ExpectedBind)

    def is_under_way(self, pod_uid: str) -> bool:
        return pod_uid in self.under_way

    async def bind(self, args: ExtenderBindingArgs) -> str:
        self.bound.append(args)
        return self.problem

    def free(self, pod: Pod, claims: Sequence[Claim]) -> None:
        self.freed.append((pod.uid, claims))

    def refused(self, pod_uid: str) -> None:
        self.refusals.append(pod_uid)


@dataclass
class VerbsHeard:
    """Stands where refused pods are woken."""

    refusals: list[tuple[str, bool]] = field(default_factory=list)

    def refused(self, pod: Pod) -> None:
        self.refusals.append((pod.uid, True))

    def passed(self, pod_uid: str) -> None:
        self.refusals.append((pod_uid, False))


class World:
    """Two nodes with one device and with two, and a claim for two."""

    def __init__(
        self,
        *claims: Claim,
        time_limit: DecisionTimeLimit | None = None,
        decision_s: float = 0.0,
        features: Features | None = None,
    ) -> None:
        self.cluster = a_cluster(1, 2, time_limit=time_limit, features=features)
        for claim in claims or (a_claim(a_request(count=2)),):
            self.cluster.set_claim(watched(claim), 1)
        self.unready = ""
        self.written, self.heard = Written(), VerbsHeard()
        self.decisions = DecisionLog()
        binds, poke = cast("Binds", self.written), cast("Poke", self.heard)
        self.now_s, self._looks = 0.0, itertools.count()
        self.rested_s: list[float] = []
        self.verbs = Verbs(
            self.cluster,
            [OURS],
            lambda: self.unready,
            binds,
            poke,
            decisions=self.decisions,
            clock=lambda: self.now_s,
            processor=lambda: next(self._looks) * decision_s,
            sleep=self._rest,
        )

    async def _rest(self, duration_s: float) -> None:
        self.rested_s.append(duration_s)

    def decided(self) -> list[list[str]]:
        """Pod, result, node and reason of the last answers, the newest first."""
        return [one.cells()[1:] for _, one in self.decisions.kept()]

    def filter(self, pod: Any = None, *names: str) -> Any:
        return json.loads(asyncio.run(self.verbs.filter(asked(pod, *names))))

    def prioritize(self, pod: Any = None) -> Any:
        return {one["Host"]: one["Score"] for one in json.loads(asyncio.run(self.verbs.prioritize(asked(pod))))}

    def preempt(self, pod: Any = None, violations: int = 1, **victims: list[str]) -> Any:
        answer = asyncio.run(self.verbs.preempt(asked_to_preempt(pod, violations, **victims)))
        return json.loads(answer)["NodeNameToMetaVictims"]

    def bind(self, **fields: object) -> Any:
        return json.loads(asyncio.run(self.verbs.bind(json.dumps({**BINDING, **fields}).encode())))


@pytest.fixture
def world() -> World:
    return World()


def a_raw_pod(*claims: str, scheduler: str = OURS, nominated: str = "") -> dict[str, Any]:
    entries = [{"name": name, "resourceClaimName": name} for name in claims]
    return {
        "metadata": {"name": "pod", "namespace": "default", "uid": "uid-pod", "creationTimestamp": None},
        "spec": {"schedulerName": scheduler, "containers": None, "resourceClaims": entries or None},
        "status": {"phase": "Pending", "nominatedNodeName": nominated},
    }


def asked(pod: Any, *names: str) -> bytes:
    nodes = list(names) or ["node-0", "node-1"]
    return json.dumps({"Pod": pod or a_raw_pod("claim"), "Nodes": None, "NodeNames": nodes}).encode()


def asked_to_preempt(pod: Any, violations: int, **victims: list[str]) -> bytes:
    by_node = {
        node.replace("_", "-"): {"Pods": [{"UID": f"uid-{name}"} for name in names], "NumPDBViolations": violations}
        for node, names in victims.items()
    }
    raw = {"Pod": pod or a_raw_pod("claim"), "NodeNameToVictims": None, "NodeNameToMetaVictims": by_node}
    return json.dumps(raw).encode()


# -- filter


def test_filter_reports_who_passes_and_why_the_others_do_not(world: World) -> None:
    assert world.filter(None, "node-1", "node-0", "node-9") == {
        "Nodes": None,
        "NodeNames": ["node-1"],
        "FailedNodes": {"node-9": "node node-9 is not known yet to the extender"},
        "FailedAndUnresolvableNodes": {"node-0": "request gpus needs 2 devices, 1 is left (1 device)"},
        "Error": "",
    }


IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


def asking(pod: dict[str, Any], resource: str = IMPLICIT) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {resource: "1"}, "requests": {resource: "1"}}}
    return {**pod, "spec": {**pod["spec"], "containers": [container]}}


@pytest.mark.parametrize("claims", [(), ("claim",)])
def test_node_that_provides_an_extended_resource_only_by_a_class_is_refused(
    world: World, claims: tuple[str, ...]
) -> None:
    found = world.filter(asking(a_raw_pod(*claims)), "node-1", "node-9")
    reason = f"only a device class provides {IMPLICIT}, and the extender makes no claim for it"
    assert (found["NodeNames"], found["FailedAndUnresolvableNodes"]) == ([], {"node-1": reason})
    assert found["FailedNodes"] == {"node-9": "node node-9 is not known yet to the extender"}


def test_pod_with_more_claims_than_are_looked_at_is_refused_by_name(world: World) -> None:
    """Let pass, it would be bound without its devices."""
    raw = a_raw_pod()
    entries = [{"name": f"claim-{number}", "resourceClaimName": "claim"} for number in range(129)]
    raw["spec"]["resourceClaims"] = entries
    answer = world.filter(raw)
    assert answer["NodeNames"] == []
    assert set(answer["FailedAndUnresolvableNodes"].values()) == {
        'pod "default/pod": spec.resourceClaims has 129 entries; at most 128 are looked at'
    }
    raw["spec"]["resourceClaims"] = entries[:128]
    assert world.filter(raw)["NodeNames"] == ["node-1"]


@pytest.mark.parametrize(("many", "few"), [("containers", "initContainers"), ("initContainers", "containers")])
def test_pod_whose_containers_say_more_than_is_looked_at_is_refused_by_name(world: World, many: str, few: str) -> None:
    """They may ask for extended resources of device classes, for which nobody makes a claim."""
    raw = a_raw_pod()
    raw["spec"][many] = [{"name": f"c-{number:05}"} for number in range(10_000)]
    raw["spec"][few] = [{"name": "one"}]
    reasons = world.filter(raw)["FailedAndUnresolvableNodes"]
    assert reasons.keys() == {"node-0", "node-1"}
    assert f"in spec.{many}; at most 65,536 are looked at" in reasons["node-0"]


def test_node_whose_device_plugin_offers_the_extended_resource_passes(world: World) -> None:
    world.cluster.set_node(a_node("node-1", allocatable={IMPLICIT: Quantity.parse("1")}))
    found = world.filter(asking(a_raw_pod()), "node-1", "node-0")
    assert (found["NodeNames"], list(found["FailedAndUnresolvableNodes"])) == (["node-1"], ["node-0"])


def test_extended_resource_that_no_class_stands_for_is_kube_schedulers(world: World) -> None:
    """It may be told to ignore it, as a licence that another extender counts."""
    assert world.filter(asking(a_raw_pod(), "example.com/other"), "node-9")["NodeNames"] == ["node-9"]
    assert world.filter(asking(a_raw_pod(scheduler="theirs")), "node-9")["NodeNames"] == ["node-9"]


def test_extended_resource_of_a_class_that_has_gone_is_refused(world: World) -> None:
    """kube-scheduler may not know yet, and leave it to a plugin that is off."""
    world.cluster.set_class(a_class("named", extended_resource_name="example.com/other"))
    world.cluster.set_class(a_class("named", extended_resource_name="example.com/renamed"))
    world.cluster.remove_class("named")
    for resource in ("example.com/other", "example.com/renamed"):
        reason = f"only a device class provides {resource}, and the extender makes no claim for it"
        found = world.filter(asking(a_raw_pod(), resource), "node-1")
        assert (found["NodeNames"], found["FailedAndUnresolvableNodes"]) == ([], {"node-1": reason})


def test_however_many_classes_have_gone_those_that_are_there_count(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.state.pod_resources.MOST_KNOWN", 2)
    for number in range(10):
        world.cluster.set_class(a_class(f"named-{number}", extended_resource_name=f"example.com/r{number}"))
        if number < 5:
            world.cluster.remove_class(f"named-{number}")
    passed = [world.filter(asking(a_raw_pod(), f"example.com/r{number}"))["NodeNames"] for number in range(10)]
    assert passed[4:] == [[]] * 6, "the last that has gone, and all that are there"


def test_pod_with_extended_resources_waits_until_the_classes_are_known(world: World) -> None:
    world.unready = NOT_YET
    assert world.filter(asking(a_raw_pod()))["Error"] == NOT_YET


@pytest.mark.parametrize("pod", [a_raw_pod(), a_raw_pod("claim", scheduler="theirs"), a_raw_pod("claim", scheduler="")])
def test_pods_without_claims_and_of_other_profiles_pass_everywhere(world: World, pod: object) -> None:
    world.unready = NOT_YET
    world.written.under_way = {"uid-pod"}
    assert world.filter(pod, "node-9", "node-0")["NodeNames"] == ["node-9", "node-0"]
    assert world.prioritize(pod) == {"node-0": 0, "node-1": 0}
    assert world.preempt(pod, node_0=["a"]) == {"node-0": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 1}}
    assert world.heard.refusals == []


@pytest.mark.parametrize(("version", "passed"), [("7", ["node-1"]), ("8", None), ("", None), (None, None)])
def test_pod_is_as_the_watch_shows_it_if_that_is_of_the_same_version(
    world: World, version: object, passed: list[str] | None
) -> None:
    raw = a_raw_pod("claim")
    raw["metadata"]["resourceVersion"] = "7"
    world.cluster.set_pod(pod_of(raw))
    unreadable = {"metadata": raw["metadata"] | {"resourceVersion": version}, "spec": {"containers": "no list"}}
    answer = world.filter(unreadable)
    assert answer.get("NodeNames") == passed
    assert ("Pod.spec.containers" in answer["Error"]) == (passed is None)


def test_filter_has_no_answer_before_it_is_ready(world: World) -> None:
    world.unready = NOT_YET
    assert world.filter() == {"Error": NOT_YET}
    assert world.heard.refusals == []


def test_filter_has_no_answer_for_a_pod_that_is_being_bound(world: World) -> None:
    world.written.under_way = {"uid-pod"}
    assert world.filter() == {"Error": "pod default/pod is being bound"}


def test_filter_says_what_is_wrong_with_a_selector() -> None:
    answer = World(a_claim(a_request("gpus", 1, "device.attributes['x'].y"))).filter()
    assert list(answer) == ["Error"]
    assert answer["Error"].startswith("pod default/pod: ")


def test_what_takes_too_long_to_decide_is_no_answer() -> None:
    clock = itertools.count()  # a second for each look at it
    world = World(time_limit=DecisionTimeLimit(lambda: next(clock), 1))
    evictable(world.cluster)
    assert world.filter() == {"Error": "timed out: the decision takes more than 1 s"}
    assert world.prioritize() == {"node-0": 0, "node-1": 0}
    assert world.preempt(node_1=["a"]) == {}


def a_user_elsewhere(*claims: str, scheduler_name: str = OURS, node_name: str = "") -> Pod:
    """A pod of another namespace."""
    pod = a_user("other", *claims, scheduler_name=scheduler_name, node_name=node_name)
    return replace(pod, namespace="calm")


GOES_LAST = {"Error": OTHERS_FIRST}


def test_namespace_with_costly_decisions_lets_others_go_first_while_they_have_pending_pods() -> None:
    world = World(decision_s=1.0)
    assert world.filter()["NodeNames"] == ["node-1"]
    assert world.filter()["NodeNames"] == ["node-1"], "nobody else needs the time"
    world.cluster.set_pod(a_user_elsewhere("any"))
    assert world.filter() == GOES_LAST
    world.cluster.set_pod(a_user_elsewhere("any", node_name="node-0"))
    assert world.filter()["NodeNames"] == ["node-1"], "the other pod has its node"


def test_what_a_policy_takes_that_looks_at_whole_nodes_is_charged_to_nobody() -> None:
    world = World(decision_s=1.0)
    world.cluster.set_pod(a_user_elsewhere("any"))
    scores = world.cluster.fleet.scores

    def scored_by_policy(*asked: Any) -> Any:
        world.cluster.time_limit.scored_s += 1.0
        return scores(*asked)

    world.cluster.fleet.scores = scored_by_policy  # type: ignore[method-assign, assignment]
    assert [world.filter()["NodeNames"] for _ in range(3)] == [["node-1"]] * 3


def test_namespace_with_costly_decisions_has_its_turn_again() -> None:
    world = World(decision_s=1.0)
    world.cluster.set_pod(a_user_elsewhere("any"))
    world.filter()
    assert world.filter() == GOES_LAST
    world.now_s = FACTOR
    assert world.filter()["NodeNames"] == ["node-1"]


def test_namespaces_of_which_nothing_is_known_wait_together_for_those_with_cheap_decisions() -> None:
    """Somebody has many, each with one pod that takes long: nobody else would have a turn before all of them."""
    world = World()
    world.cluster.set_pod(a_user_elsewhere("any"))
    world.verbs._time.spent("calm", 0.0, world.now_s, is_placed=True)
    world.verbs._time.spent("one-of-many", 3.0, world.now_s)
    assert world.filter() == {"Error": CHEAP_FIRST}
    world.cluster.set_pod(a_user_elsewhere("any", node_name="node-0"))
    assert world.filter() == {"Error": CHEAP_FIRST}, "the other pod has its node, and the next one may come"
    world.now_s = RECENT_S
    assert world.filter()["NodeNames"] == ["node-1"]


def test_namespace_with_costly_decisions_lets_others_go_first_for_a_while_after_their_last_pod() -> None:
    """It would have a turn between any two of them, and the second would wait for it."""
    world = World(decision_s=1.0)
    world.filter()
    world.verbs._time.tried("calm", 0, world.now_s)
    assert world.filter() == GOES_LAST
    world.now_s = RECENT_S
    assert world.filter()["NodeNames"] == ["node-1"]


def test_answer_after_a_long_decision_waits_so_that_others_are_heard_before_the_next() -> None:
    world = World(decision_s=1.0)
    world.filter()
    assert world.rested_s == [REST]
    world = World()
    world.filter()
    assert world.rested_s == []


class TakesLong:
    """A decision of which each step takes an eighth of a second by the clocks; what is known of it is kept."""

    def __init__(self, *, steps: int) -> None:
        self.world = World(time_limit=DecisionTimeLimit(lambda: self.now_s, processor=lambda: self.now_s))
        self.now_s, self.left, self.slices = 0.0, steps, 0
        self.world.verbs._slices._processor = lambda: self.now_s
        self.world.now_s = FACTOR  # the program has run for a while
        self._scores = self.world.cluster.fleet.scores
        self.world.cluster.fleet.scores = self._answer  # type: ignore[method-assign, assignment]

    def _answer(self, claims: Sequence[Claim], nodes: Mask) -> Any:
        self.slices += 1
        while self.left:
            self.now_s += 0.125
            self.left -= 1
            if self.world.cluster.time_limit.is_over():
                raise Cancelled("cancelled")
        return self._scores(claims, nodes)


def test_long_decision_is_made_in_turns_and_others_are_heard_in_between() -> None:
    long = TakesLong(steps=10)
    assert long.world.filter()["NodeNames"] == ["node-1"]
    assert long.world.rested_s == [0.125 * REST, 0.25 * REST, 0.375 * REST, 0.5 * REST]


def test_long_decision_goes_on_when_it_is_asked_for_again_if_others_need_the_time() -> None:
    long = TakesLong(steps=19)
    long.world.cluster.set_pod(a_user_elsewhere("any"))
    left = []
    for again in range(3):
        long.world.now_s += again * FACTOR
        assert long.world.filter() == GOES_LAST
        left.append((long.slices, long.left))
    assert left == [(2, 16), (3, 13), (4, 7)], "as long as all before"
    long.world.now_s += 3 * FACTOR
    assert long.world.filter()["NodeNames"] == ["node-1"]


def test_decision_that_takes_too_long_in_total_begins_with_a_short_turn_again() -> None:
    long = TakesLong(steps=1000)
    too_long = {"Error": "timed out: the decision takes more than 3 s"}
    assert long.world.filter() == too_long
    slices = long.slices
    assert long.world.filter() == too_long
    assert long.slices == 2 * slices - 1, "the namespace is new no more"


def test_pod_that_was_decided_leaves_nothing_of_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.extender.question.MOST_UNFINISHED", 1)
    long = TakesLong(steps=4)
    long.world.filter()
    assert long.world.verbs._slices._spent_s == {}
    long.world.cluster.set_pod(a_user_elsewhere("any"))
    for uid in ("uid-1", "uid-2"):
        long.left, long.world.now_s = 4, long.world.now_s + 4 * FACTOR
        raw = a_raw_pod("claim")
        raw["metadata"]["uid"] = uid
        assert long.world.filter(raw) == GOES_LAST
    assert list(long.world.verbs._slices._spent_s) == ["uid-2"]


def test_preempt_judges_in_its_next_turn_the_nodes_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    world, judged = World(), list[str]()

    def judge(_: object, __: Pod, victims: Mapping[str, object]) -> Iterator[JudgedNode]:
        for name in victims:
            judged.append(name)
            if judged.count(name) == 1:  # what is known by now is found in the next turn
                raise Cancelled("cancelled")
            yield JudgedNode(name, is_kept=name == "node-1")

    monkeypatch.setattr("scheduler.extender.verbs.judged_nodes", judge)
    assert world.preempt(node_0=["a"], node_1=["b"]).keys() == {"node-1"}
    assert judged == ["node-0", "node-0", "node-1", "node-1"]


def test_what_slices_have_changed_counts_for_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    world, used_s = World(), [0.0]
    slow_s = [10.0]  # what is worked out once is known
    nodes = world.cluster.fleet._nodes
    work_out = nodes.refresh

    def refresh() -> None:
        work_out()
        used_s[0] += slow_s[0]
        slow_s[0] = 0.0

    monkeypatch.setattr(world.verbs._slices, "_processor", lambda: used_s[0])
    monkeypatch.setattr(nodes, "refresh", refresh)
    world.cluster.set_pod(a_user_elsewhere("any"))
    assert world.filter()["NodeNames"] == ["node-1"]
    assert world.filter()["NodeNames"] == ["node-1"]


@pytest.mark.parametrize(
    "other",
    [
        a_user("other", "any", scheduler_name=OURS),
        a_user_elsewhere(),
        a_user_elsewhere("any", scheduler_name="theirs"),
    ],
    ids=["of the same namespace", "without claims", "of another profile"],
)
def test_nobody_waits_for_pods_that_are_not_decided_or_of_the_same_namespace(other: Pod) -> None:
    world = World(decision_s=1.0)
    world.cluster.set_pod(other)
    world.filter()
    assert world.filter()["NodeNames"] == ["node-1"]


@pytest.mark.parametrize("verb", ["prioritize", "preempt"])
def test_what_else_is_decided_for_a_pod_counts_as_well(verb: str) -> None:
    world = World(decision_s=1.0)
    evictable(world.cluster)
    world.cluster.set_pod(a_user_elsewhere("any"))
    getattr(world, verb)()
    assert world.filter() == GOES_LAST


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "the body is not JSON"),
        (b"{}", "Pod: is required"),
        (asked({"metadata": {}}), "Pod.spec: is required"),
        (asked({"metadata": {"name": "A b"}, "spec": {}}), "Pod.metadata.name: "),
        (json.dumps({"Pod": a_raw_pod("claim")}).encode(), "NodeNames: is required"),
        (json.dumps({"Pod": a_raw_pod("claim"), "Nodes": {"items": [{}]}}).encode(), "Nodes.items[0].metadata: "),
    ],
)
def test_filter_says_what_is_wrong_with_a_call(world: World, body: bytes, problem: str) -> None:
    answer = json.loads(asyncio.run(world.verbs.filter(body)))
    assert list(answer) == ["Error"]
    assert answer["Error"].startswith(problem)


def test_pod_is_waited_for_while_no_node_passes(world: World) -> None:
    world.filter()
    world.filter(None, "node-0")
    assert world.heard.refusals == [("uid-pod", False), ("uid-pod", True)]
    assert world.written.refusals == ["uid-pod"]


# -- claims that keep their pod from every node


def elsewhere() -> Claim:
    return a_claim(allocation=Allocation((a_result(pool="node-7"),), node_selector=named("node-7")))


def test_claim_that_keeps_its_pod_from_every_node_is_taken_back() -> None:
    world = World(elsewhere())
    world.filter()
    assert world.written.freed == [("uid-pod", (elsewhere(),))]
    assert world.heard.refusals == [("uid-pod", True)]


def test_claim_stays_while_only_the_nominated_node_was_asked_about() -> None:
    world = World(elsewhere())
    world.filter(a_raw_pod("claim", nominated="node-0"), "node-0")
    assert world.written.freed == []
    assert world.heard.refusals == [("uid-pod", True)]
    world.filter(a_raw_pod("claim", nominated="node-0"), "node-0", "node-1")
    assert len(world.written.freed) == 1


# -- prioritize


def test_prioritize_scores_each_node() -> None:
    wanted = a_claim(first_available("r", an_alternative("two", count=2), an_alternative("one")))
    assert World(wanted).prioritize() == {"node-0": 0, "node-1": 10}


def test_prioritize_has_no_preference_before_it_is_ready() -> None:
    world = World(a_claim(first_available("r", an_alternative("two", count=2), an_alternative("one"))))
    world.unready = NOT_YET
    assert world.prioritize() == {"node-0": 0, "node-1": 0}


# -- preempt


def evictable(cluster: Cluster) -> None:
    """A pod on node-1 that has one of its devices."""
    victim = a_user("a", "held", node_name="node-1")
    cluster.set_pod(victim)
    cluster.set_claim(watched(an_allocated_claim(a_result(pool="node-1"), name="held"), users=[victim]), 1)


def test_preempt_keeps_the_nodes_that_help_with_all_that_was_said_of_them(world: World) -> None:
    evictable(world.cluster)
    kept = world.preempt(node_0=["b"], node_1=["a", "c"])
    assert kept == {"node-1": {"Pods": [{"UID": "uid-a"}, {"UID": "uid-c"}], "NumPDBViolations": 1}}


def test_preempt_keeps_nothing_before_it_is_ready(world: World) -> None:
    evictable(world.cluster)
    world.unready = NOT_YET
    assert world.preempt(node_1=["a"]) == {}


@pytest.mark.parametrize("verb", ["prioritize", "preempt"])
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[]", r"must be a JSON object"),
        (b'{"Pod": 1}', r"Pod: must be an object \(got 1\)"),
        (b'{"Pod": {"spec": {}}}', r"Pod\.metadata: is required"),
        (json.dumps({"Pod": a_raw_pod()}).encode(), r"is required, unless"),
    ],
)
def test_prioritize_and_preempt_have_no_field_for_errors(world: World, verb: str, body: bytes, problem: str) -> None:
    call: Callable[[bytes], Coroutine[None, None, bytes]] = getattr(world.verbs, verb)
    with pytest.raises(Malformed, match=problem):
        asyncio.run(call(body))


def a_world_of(release: str, *, is_strict: bool = False) -> World:
    """node-0 has too few devices in any case; on node-1 a pod of lower priority has one of two, and is kept by none."""
    world = World(features=kubernetes(release, is_strict=is_strict))
    evictable(world.cluster)
    return world


def an_urgent_pod(**spec: object) -> dict[str, Any]:
    raw = a_raw_pod("claim")
    raw["spec"] |= {"priority": 10, **spec}
    return raw


TOO_FEW = "request gpus needs 2 devices, 1 is left (1 device)"


@pytest.mark.parametrize(("release", "is_open"), [("1.36", False), ("1.37", False), ("1.38", True)])
def test_node_that_can_be_won_is_left_open_for_preemption_from_1_38_on(release: str, *, is_open: bool) -> None:
    world = a_world_of(release)
    answer = world.filter(an_urgent_pod())
    assert answer["NodeNames"] == []
    assert list(answer["FailedNodes"]) == ["node-1"] * is_open
    assert list(answer["FailedAndUnresolvableNodes"]) == ["node-0", *["node-1"] * (not is_open)]
    assert answer["FailedAndUnresolvableNodes"]["node-0"] == TOO_FEW


def test_every_node_that_may_be_won_is_left_open_so_that_kube_scheduler_chooses() -> None:
    world = a_world_of("1.38")
    world.cluster.set_claim(watched(a_claim(a_request(count=1))), 2)
    for node, device in (("node-0", "gpu-0"), ("node-1", "gpu-1")):
        user = a_user(f"of-{node}", f"of-{node}", node_name=node)
        world.cluster.set_pod(user)
        held = an_allocated_claim(a_result(device, pool=node), name=f"of-{node}")
        world.cluster.set_claim(watched(held, users=[user]), 1)
    assert list(world.filter(an_urgent_pod())["FailedNodes"]) == ["node-0", "node-1"]


@pytest.mark.parametrize(
    "pod", [an_urgent_pod(priority=0), an_urgent_pod(preemptionPolicy="Never")], ids=["of equal priority", "Never"]
)
def test_nothing_is_left_open_for_a_pod_that_evicts_nobody(pod: Any) -> None:
    assert a_world_of("1.38").filter(pod)["FailedNodes"] == {}


def test_nothing_is_left_open_where_kube_scheduler_allocates_or_is_followed_strictly() -> None:
    assert a_world_of("1.38", is_strict=True).filter(an_urgent_pod())["FailedNodes"] == {}
    world = a_world_of("1.38")
    advisory = Verbs(world.cluster, [OURS], lambda: "", None, cast("Poke", world.heard), decisions=world.decisions)
    assert json.loads(asyncio.run(advisory.filter(asked(an_urgent_pod()))))["FailedNodes"] == {}


def test_node_that_nobody_has_to_leave_for_kube_scheduler_gets_victims_for_the_devices() -> None:
    """The call of kube-scheduler 1.38 about the nodes that filter has left open."""
    world = a_world_of("1.38")
    assert world.preempt(an_urgent_pod(), violations=0, node_0=[], node_1=[]) == {
        "node-1": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 0}
    }


# -- bind


def test_bind_passes_on_what_is_asked_and_what_came_of_it(world: World) -> None:
    assert world.bind() == {"Error": ""}
    assert [args.model_dump() for args in world.written.bound] == [BINDING]
    world.written.problem = "the node is gone"
    assert world.bind() == {"Error": "the node is gone"}
    pod = f"{BINDING['PodNamespace']}/{BINDING['PodName']}"
    assert world.decided() == [
        [pod, "not bound", BINDING["Node"], "the node is gone"],
        [pod, "bound", BINDING["Node"], "-"],
    ]


def test_bind_is_not_begun_before_it_is_ready(world: World) -> None:
    world.unready = NOT_YET
    assert world.bind() == {"Error": NOT_YET}
    assert world.written.bound == []


def test_pod_of_another_profile_waits_for_no_bind(world: World) -> None:
    async def act() -> list[bool]:
        expected = world.written.expected = ExpectedBind(3600.0)
        expected.came("uid-any")
        expected.passed(a_user("before"))
        calls = [world.verbs.filter(asked(a_raw_pod("claim", scheduler=name))) for name in (OURS, "theirs")]
        tasks = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0)
        waits = [not task.done() for task in tasks]
        expected.came("uid-before")
        await asyncio.gather(*tasks)
        return waits

    assert asyncio.run(act()) == [True, False]


def test_bind_says_what_is_wrong_with_a_call(world: World) -> None:
    assert world.bind(Node=None) == {"Error": "Node: must be a string"}
    assert world.written.bound == []


# -- advice


def test_adviser_wakes_pods_and_takes_no_claim_back() -> None:
    world = World(elsewhere())
    verbs = Verbs(world.cluster, [OURS], lambda: "", None, cast("Poke", world.heard), decisions=DecisionLog())
    answer = json.loads(asyncio.run(verbs.filter(asked(None))))
    assert answer["FailedAndUnresolvableNodes"].keys() == {"node-0", "node-1"}
    assert world.heard.refusals == [("uid-pod", True)]
