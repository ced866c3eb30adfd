"""What holds of every preemption, in clusters larger than anything can search: from its decision to the end of an hour.

Victims go one after the other, other schedulers put some of them back, and a rival of this scheduler asks meanwhile.
The cluster's state is kept a second time, as plain values, and what holds is asked of these.
(a) With the victims gone, what was recorded is valid, and no pod of the same or a lower priority makes it invalid.
(b) With all but one of them gone, the pod does not fit on the node.
(c) All are of lower priority, none is a mirror pod, and all are on the node.
(d) No device is used above its capacity, at any revision.
(e) Nobody is evicted whom no record names.
(f) Preemptions for a pod are no more in an hour than its backoff allows.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from random import Random

from allocator.model import Claim
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.decision.pod_cycle import PodCycle, decide
from scheduler.decision.schedule_result import NotPlaced, Placed
from scheduler.live.preemptions import (
    FIRST_BACKOFF_S,
    MOST_BACKOFF_S,
    NothingToWin,
    PlaceToWin,
    Preemptions,
    PreemptionTerms,
)
from scheduler.rates import backoff_s
from tests import extent
from tests.builders import a_container, a_pod, watched
from tests.properties.preemption.oracle import fits, taken_on
from tests.properties.preemption.worlds import (
    GROUP,
    Held,
    Holder,
    Machine,
    Taken,
    Wish,
    World,
    a_world,
    claim_for,
    claim_with_devices,
    cluster_of_world,
    pod_on_node,
    with_devices,
)

WORLDS = extent.chosen("INVARIANT_WORLDS", 40, 400)
NODES = extent.chosen("INVARIANT_NODES", 300, 1500)
"""At most, of which those are left where the pod does not fit without evictions."""
SEED = extent.chosen("INVARIANT_SEED", 1, extent.day())
MANY = 0.4
"""How often the pod asks for as much cpu as several pods have."""
HOUR_S = 3600.0
RETRIED_S = 1.0


def without_room(world: World) -> World:
    """The world without the nodes where the pod fits."""
    machines = [one for one in world.machines if not fits(world, one, frozenset(), waits=False)]
    nodes = {one.name for one in machines}
    claims = [one for one in world.claims if one.node in nodes]
    names = {one.name for one in claims}
    holders = [
        replace(one, claims=tuple(name for name in one.claims if name in names))
        for one in world.holders
        if one.node in nodes
    ]
    pods = {one.name for one in holders}
    claims = [replace(one, owner=one.owner if one.owner in pods else "") for one in claims]
    return replace(world, machines=machines, holders=holders, claims=claims)


def allowed_in_an_hour() -> int:
    """How many preemptions in vain the backoff allows."""
    time, number = 0.0, 0
    while time < HOUR_S:
        number += 1
        time += backoff_s(number, FIRST_BACKOFF_S, MOST_BACKOFF_S)
    return number


class Hour:
    """An hour of one pod that fits nowhere, and of all that happens to its victims."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng = world, rng
        self.cluster, self.pod, self.claims = cluster_of_world(world)
        # As it is for pods of other schedulers: after some preemptions in vain they are spared.
        is_ours = rng.random() < 0.7
        terms = PreemptionTerms(is_on=True)
        self.preemptions = Preemptions(self.cluster, terms, lambda _: is_ours, lambda _: None, lambda: None)
        self.puts_back = rng.choice((0.0, 0.5, 1.0))
        self.versions = count(2)
        self.rivals = count()
        self.recorded: set[str] = set()
        self.freed: dict[str, Held] = {}
        self.begun: list[float] = []
        self.outcomes: Counter[str] = Counter(pods=len(world.holders))

    def pass_by(self) -> Counter[str]:
        """All of it."""
        now = 0.0
        while now < HOUR_S:
            found = self.asked(self.pod, self.claims, now)
            if isinstance(found, Placed):
                self.outcomes["placed"] += 1
                self.settle(self.pod, found, self.world.wishes)
                break
            if isinstance(found, PlaceToWin):
                self.check_decision(found)
                self.begun.append(now)
                self.carry_out(found)
                now += RETRIED_S
                continue
            if found.drops:
                self.preemptions.drop(self.pod.uid)
            if found.again_s is None:
                self.outcomes["nothing"] += 1
                break
            self.outcomes["backed off"] += found.is_backed_off
            now += found.again_s
        assert len(self.begun) <= allowed_in_an_hour()  # (f)
        self.outcomes["most begun"] = len(self.begun)
        return self.outcomes

    def asked(self, pod: Pod, claims: list[Claim], now: float) -> Placed | PlaceToWin | NothingToWin:
        """What becomes of the pod."""
        promised = self.preemptions.promised(pod)
        with self.preemptions.seen_by(promised):
            decided = decide(self.cluster, promised, claims)
            if isinstance(decided, Placed):
                return decided
            assert isinstance(decided, NotPlaced)
            return self.preemptions.preemption(PodCycle(self.cluster, promised, claims), decided, 0.0, now)

    def machine(self, node: str) -> Machine:
        return next(one for one in self.world.machines if one.name == node)

    # -- the decision

    def check_decision(self, won: PlaceToWin) -> None:
        record, world, machine = won.record, self.world, self.machine(won.record.node)
        victims = [one for one in world.holders if f"uid-{one.name}" in record.victims]
        gone = frozenset(one.name for one in victims)
        assert len(victims) == len(record.victims)
        taken = taken_on(world, machine, gone, waits=True)
        assert self.after(taken, machine, world.wishes, record.claims) is not None  # (a)
        assert fits(world, machine, gone, waits=True)
        for name in gone:
            assert not fits(world, machine, gone - {name}, waits=True), f"{name} need not go"  # (b)
        for one in victims:  # (c)
            assert one.priority < world.priority
            assert not one.is_static
            assert one.node == machine.name
        self.outcomes["2 or more go" if len(gone) > 1 else "one goes" if gone else "nobody goes"] += 1

    def after(self, taken: Taken, machine: Machine, wishes: Iterable[Wish], claims: Iterable[Claim]) -> Taken | None:
        """What is in use with what the claims got; None where it is not what was wished for, or more than there is."""
        by_name = {one.name: one for one in machine.devices}
        given = [
            [by_name[result.device] for result in one.allocation.results]
            for one in claims
            if one.allocation is not None
        ]
        made = given.pop() if any(one.by_resource for one in wishes) else []
        left: Taken | None = taken
        for wish in wishes:
            devices = [one for one in made if one.kind == wish.kind][: wish.count] if wish.by_resource else given.pop(0)
            made = [one for one in made if one not in devices]
            is_wished = len(devices) == wish.count and {one.kind for one in devices} == {wish.kind}
            if not is_wished or (wish.matches and len({one.model for one in devices}) > 1) or left is None:
                return None
            left = with_devices(left, wish, devices)
        return left if not given and not made else None

    # -- what follows

    def carry_out(self, won: PlaceToWin) -> None:
        """Evict, and let victims and claims go in any order, while others want the same."""
        self.preemptions.begin(won)
        self.recorded |= won.record.victims
        for write in won.preemption.writes:
            if write.is_delete:
                assert write.pod.uid in self.recorded  # (e)
                self.cluster.set_pod(replace(write.pod, is_deleting=True))
                self.outcomes["evicted"] += 1
        self.preemptions.evicted(self.pod.uid)
        victims = [one for one in self.world.holders if f"uid-{one.name}" in won.record.victims]
        self.rng.shuffle(victims)
        for victim in victims:
            self.go(victim)
            self.release(won.record.released)
            self.come()
            if self.rng.random() < self.puts_back:
                self.put_back(victim, won)
        self.release(won.record.released)

    def go(self, victim: Holder) -> None:
        self.world = replace(self.world, holders=[one for one in self.world.holders if one.name != victim.name])
        self.cluster.remove_pod(f"uid-{victim.name}")

    def release(self, released: Iterable[str]) -> None:
        """Claims that nobody uses any more lose their devices, as kube-controller-manager does it."""
        for uid in released:
            held = next((one for one in self.world.claims if self.uid(one) == uid), None)
            if held is None or held.others == GROUP or self.is_used(held):
                continue
            self.world = replace(self.world, claims=[one for one in self.world.claims if one.name != held.name])
            if held.owner:
                self.cluster.remove_claim(uid)
            else:
                self.cluster.set_claim(watched(claim_for(held.name, held.wish)), next(self.versions))
            self.freed[held.name] = held

    def is_used(self, held: Held) -> bool:
        return any(held.name in one.claims and not one.state for one in self.world.holders)

    def uid(self, held: Held) -> str:
        return f"uid-{held.name}"

    def put_back(self, victim: Holder, won: PlaceToWin) -> None:
        """Its controller makes a new pod, to which another scheduler gives the same, if that is free."""
        lost = [self.freed.pop(name) for name in victim.claims if name in self.freed]
        taken: Taken | None = taken_on(self.world, self.machine(victim.node), frozenset(), waits=False)
        for held in lost:
            taken = (
                with_devices(taken, held.wish, held.devices) if taken is not None and held.node == victim.node else None
            )
        if taken is None:
            return
        number = next(self.versions)
        new = replace(victim, name=f"again-{number}", state="")
        self.there(new, [replace(held, owner=new.name if held.owner else "", is_listed=True) for held in lost])
        self.outcomes["put back"] += 1

    def come(self) -> None:
        """A rival of this scheduler asks once, of the same priority, a lower or a higher one."""
        number = next(self.rivals)
        wishes = [replace(one, by_resource=False) for one in self.world.wishes]
        claims = [claim_for(f"of-rival-{number}-{place}", wish) for place, wish in enumerate(wishes)]
        pod = a_pod(
            a_container(cpu=str(self.world.cpu)),
            name=f"rival-{number}",
            priority=self.world.priority + self.rng.choice((-1, 0, 0, 1)),
            claims=tuple(PodClaim(one.name, one.name) for one in claims),
        )
        for claim in claims:
            self.cluster.set_claim(watched(claim), next(self.versions))
        self.cluster.set_pod(pod)
        with self.preemptions.seen_by(pod):
            decided = decide(self.cluster, pod, claims)
        self.outcomes["rival placed" if isinstance(decided, Placed) else "rival refused"] += 1
        if isinstance(decided, Placed):
            was_kept = self.is_kept
            self.settle(pod, decided, wishes)
            assert self.is_kept or not was_kept or (pod.priority or 0) > self.world.priority
            return
        self.cluster.remove_pod(pod.uid)
        for claim in claims:
            self.cluster.remove_claim(claim.uid)

    @property
    def is_kept(self) -> bool:
        """Whether what was recorded is valid without the victims that are still there."""
        record = self.preemptions.records[self.pod.uid]
        machine = self.machine(record.node)
        gone = frozenset(uid.removeprefix("uid-") for uid in record.victims)
        taken = taken_on(self.world, machine, gone, waits=True)
        return self.after(taken, machine, self.world.wishes, record.claims) is not None

    def settle(self, pod: Pod, placed: Placed, wishes: Iterable[Wish]) -> None:
        """The pod is bound, with what it got."""
        machine = self.machine(placed.node)
        taken = taken_on(self.world, machine, frozenset(), waits=False)
        assert self.after(taken, machine, wishes, placed.given) is not None  # (d)
        by_name = {one.name: one for one in machine.devices}
        new = Holder(
            pod.name, placed.node, pod.priority or 0, 9, self.world.cpu, tuple(one.name for one in placed.claims)
        )
        held = [
            Held(one.name, wish, placed.node, tuple(by_name[result.device] for result in one.allocation.results))
            for one, wish in zip(placed.given, wishes, strict=False)
            if one.allocation is not None
        ]
        if placed.extended is None:  # otherwise the hour ends here
            self.there(new, held)

    def there(self, new: Holder, claims: Iterable[Held]) -> None:
        """The pod is on its node, with these claims."""
        world = self.world
        self.world = replace(world, holders=[*world.holders, new], claims=[*world.claims, *claims])
        for held in claims:
            self.cluster.set_claim(claim_with_devices(self.world, held), next(self.versions))
        self.cluster.set_pod(pod_on_node(self.world, new))


def test_a_to_f_hold_of_preemptions_in_large_clusters() -> None:
    outcomes: Counter[str] = Counter()
    largest = 0
    for number in range(WORLDS):
        rng = Random(f"{SEED}/large/{number}")  # noqa: S311 - not for secrets
        world = a_world(rng, rng.choice((NODES // 30, NODES // 5, NODES)))
        if rng.random() < MANY:
            world = replace(world, cpu=4)
        world = without_room(world)
        try:
            found = Hour(world, rng).pass_by()
        except AssertionError as error:
            error.add_note(f"INVARIANT_SEED={SEED}, world {number}")
            raise
        largest = max(largest, found.pop("pods"))
        outcomes["most begun"] = max(outcomes["most begun"], found.pop("most begun"))
        outcomes.update(found)
    assert largest > NODES
    kinds = (
        "one goes",
        "2 or more go",
        "nobody goes",
        "put back",
        "rival placed",
        "rival refused",
        "backed off",
        "placed",
    )
    assert min(outcomes[kind] for kind in kinds) >= WORLDS // 40, outcomes
    assert outcomes["most begun"] > 3, outcomes
