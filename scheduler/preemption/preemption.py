"""One pod that fits nowhere, and the node where it would fit if pods of lower priority went: whose, and at what cost.

In kube-scheduler's order: may it preempt at all, which nodes are candidates, who has to go from each, which node costs
the least, and what is written for it. Nothing is written here, and the cluster is afterwards what it was.
Source: kube-scheduler's plugin DefaultPreemption, framework/preemption; devices as KEP-5690 means it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from heapq import heapify, heappop
from typing import NamedTuple

from allocator.bits import Mask, union
from allocator.explain.text import inner_cause
from allocator.model import Claim
from allocator.outcome import Allocated, LimitReached
from allocator.policies.least_fragmentation import ThenLeastFragmentation
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_selector import PodDisruptionBudget
from scheduler.decision.cluster import Cluster
from scheduler.decision.filters import fit_error
from scheduler.decision.pod_cycle import NO_DEVICES, EligibleNodes, PodCycle, Rejections, Requirements
from scheduler.decision.schedule_result import NotPlaced
from scheduler.plugins.node_resources_fit import NODE_RESOURCES_FIT, shortage_reason
from scheduler.preemption.eviction_writes import PreemptionWrite, eviction_writes, is_ending_by_preemption
from scheduler.preemption.victims import (
    EvictionCost,
    NodesAtOnce,
    PodTable,
    Reprieve,
    Unit,
    WinnableClaims,
    cost_of,
    guessed_victims,
    least_cost,
    least_devices,
    lower_units,
    nodes_at_once,
    victims_of,
    windows,
)
from scheduler.state.masks import mask_of, numbers_once
from scheduler.state.pods import PodRequests
from scheduler.state.pods_by_priority import priority_of

NEVER = "not eligible due to preemptionPolicy=Never."
ENDING = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOTHING_TO_DEALLOCATE = "no new claims to deallocate"
STILL_NOT = "still not schedulable"
DEALLOCATED = "deallocation of ResourceClaim completed"
LEAST_SHARE = 10
LEAST_NODES = 100
"""So many percent of the nodes, and so many at least, are tried before the best of the candidates is taken."""

MOST_BOUNDED = 256
"""Of so many nodes that need a closer look those are looked at that promise to cost the least."""

MOST_EQUAL = 16
"""Of so many candidates that cost the same the one with the best devices is chosen."""


_TO_CHOOSE = 0.4
_TO_COMPARE = 0.3
"""Of the time that is left: for candidates where a closer look is needed, then for which of equal ones is best."""


@dataclass(frozen=True, slots=True)
class NodeToWin:
    """A node that the pod could have."""

    number: int
    node: str
    victims: Sequence[Unit]
    """The most important first; none where it is enough to wait."""
    violations: int
    """How many pods' eviction violates a budget."""
    cost: EvictionCost

    @property
    def pods(self) -> list[Pod]:
        """All who go."""
        return [pod for unit in self.victims for pod in unit.pods]


@dataclass(frozen=True, slots=True)
class Preemption:
    """What a pod that fits nowhere can win."""

    text: str
    nominated: str | None = None
    """The node; "" where a nomination that it has is to be cleared, None where that stays."""
    candidate: NodeToWin | None = None
    """None where it wins nothing, for what `refused` says."""
    violated: tuple[PodDisruptionBudget, ...] = ()
    given: tuple[Claim, ...] = ()
    """Its claims without devices, with what they would get."""
    claims: tuple[str, ...] = ()
    """Uids of the claims that come free."""
    writes: Sequence[PreemptionWrite] = ()
    """In their order."""
    candidates: Sequence[NodeToWin] = ()
    """All of them if every node was tried, else the one."""
    refused: Mapping[str, Mask] = field(default_factory=dict)
    """By reason the nodes that were tried in vain."""
    next_start: int = 0
    """Where the next search begins."""
    deallocates: tuple[Claim, ...] = ()
    """Claims of its own, of which one is to be deallocated first; nothing else is done then."""

    @property
    def equal(self) -> list[NodeToWin]:
        """The candidates that cost as little as the chosen one."""
        least = min((one.cost for one in self.candidates), default=None)
        return [one for one in self.candidates if one.cost == least]


class Preemptor:
    """Looks for victims for pods of a cluster, one after the other. wins_devices: claims of victims count as free then.

    tries_all: every node, and not only as many as kube-scheduler would look at.
    """

    def __init__(self, cluster: Cluster, *, wins_devices: bool = True, tries_all: bool = False) -> None:
        self.cluster = cluster
        self.wins_devices = wins_devices
        self.tries_all = tries_all
        self.table = PodTable(cluster)
        self.start = 0

    def preemption(
        self, cycle: PodCycle, refused: NotPlaced, spares: Callable[[Pod], bool] | None = None
    ) -> Preemption:
        """What the pod of the cycle can win. refused: what was decided for it; nothing has changed since.

        spares: pods that never go for this one, beside those that never go for any.

        Raises AllocationError, TooLong. Cost: O(nodes) array operations, and for up to a tenth of the nodes, at least
        100, where more than their own resources is short, a few decisions each.
        """
        pod = cycle.pod
        assert pod is not None, "a claim that no pod uses preempts nobody"
        if self.wins_devices and (own := self._let_go_first(pod, refused)):
            return Preemption(DEALLOCATED, deallocates=own)
        helped = self._helped(refused)
        if problem := self._ineligible(pod, helped):
            return Preemption(self._joined(cycle, problem))
        search = _VictimSearch(self, cycle, helped, spares)
        search.run(self.start)
        self.start = search.last + 1
        if not search.won:
            text = fit_error(self.cluster.fleet.all.bit_count(), self._counted(search.refused, helped))
            return Preemption(self._joined(cycle, text), "", refused=search.refused, next_start=self.start)
        return self._won(search, search.best())

    def winnable(self, cycle: PodCycle, nodes: Mask) -> Mask:
        """Those of the nodes that the pod of the cycle may win by evictions.

        Of a few nodes these are all that promise it; of more than kube-scheduler would look at, those that can be won
        for certain and promise to cost the least.
        Raises AllocationError, TooLong. Cost: as for `preemption`.
        """
        search = _VictimSearch(self, cycle, nodes)
        if nodes.bit_count() <= LEAST_NODES:
            return search.promising
        search.run(self.start)
        self.start = search.last + 1
        return sum(1 << one.number for one in search.all() if one.victims)

    def on_node(self, cycle: PodCycle, number: int, going: Collection[str] = ()) -> NodeToWin | None:
        """The node, if the pod of the cycle can win it. going: uids of pods that go in any case, if they may.

        Raises AllocationError, TooLong. Cost: a few decisions.
        """
        won = _VictimSearch(self, cycle, 1 << number).one(number, going)
        return won.made() if won is not None else None

    # -- may it at all

    def _let_go_first(self, pod: Pod, refused: NotPlaced) -> tuple[Claim, ...]:
        """Claims of its own that keep the pod from nodes where it may fit, and that nobody else uses."""
        # Differs from kube-scheduler, which deallocates such a claim, and looks for victims in the same attempt.
        users = self.cluster.consumers_of
        return tuple(claim for claim in refused.stuck if not set(users(claim)) - {pod.uid})

    def _helped(self, refused: NotPlaced) -> Mask:
        """The nodes that the end of other pods could open: kube-scheduler's code Unschedulable."""
        by_devices = union(nodes for _, nodes in refused.lacking) if self.wins_devices else 0
        return refused.resolvable | by_devices

    def _ineligible(self, pod: Pod, helped: Mask) -> str:
        if not pod.preempts:
            return NEVER
        number = self.cluster.number_of(pod.nominated_node) if pod.nominated_node else None
        if number is None or not helped >> number & 1:
            return ""
        lower = (one for one in self.cluster.by_priority.on(number) if priority_of(one) < priority_of(pod))
        return ENDING if any(map(is_ending_by_preemption, lower)) else ""

    # -- what is said and written

    def _counted(self, refused: Mapping[str, Mask], helped: Mask) -> Counter[str]:
        counts = Counter({reason: nodes.bit_count() for reason, nodes in refused.items()})
        if unhelpful := self.cluster.fleet.all & ~helped:
            counts[NOT_HELPFUL] += unhelpful.bit_count()
        return counts

    def _joined(self, cycle: PodCycle, text: str) -> str:
        """As the plugins' texts are put together."""
        if self.cluster.fleet.features.release.reports_victims:
            return f"preemption: {text}"
        return f"{STILL_NOT if cycle.claims else NOTHING_TO_DEALLOCATE}, preemption: {text}"

    def _won(self, search: "_VictimSearch", best: NodeToWin) -> Preemption:
        pod, pods = search.pod, best.pods
        text = ""
        if self.cluster.fleet.features.release.reports_victims:
            text = (
                f"preemption: found a potential placement for pod on node {best.node}, preempting {len(pods)} victims"
            )
        _, violated = Reprieve.of(search.lower(best.number), self.cluster.budgets).violations(best.victims)
        claims = search.claims_of(best)
        return Preemption(
            text,
            best.node,
            best,
            violated,
            search.given(best),
            claims,
            eviction_writes(self.cluster, pod, pods, [best.node]),
            search.all() if self.tries_all else [best],
            search.refused,
            self.start,
        )


class _Won(NamedTuple):
    """A candidate, of which only the best has to be made."""

    cost: EvictionCost
    number: int
    violations: int
    victims: Callable[[], Sequence[Unit]]
    """Makes them."""
    cluster: Cluster

    def made(self) -> NodeToWin:
        """The candidate."""
        return NodeToWin(self.number, self.cluster.name_of(self.number), self.victims(), self.violations, self.cost)


class _VictimSearch:
    """The candidates for one pod. refused: by reason the nodes that are none."""

    def __init__(
        self, by: Preemptor, cycle: PodCycle, helped: Mask, spares: Callable[[Pod], bool] | None = None
    ) -> None:
        assert cycle.pod is not None
        self._spares = spares
        self.by, self.cycle, self.pod, self.helped = by, cycle, cycle.pod, helped
        self.cluster = by.cluster
        self._is_strict = by.cluster.fleet.features.is_strict
        self.priority = priority_of(self.pod)
        wins = by.wins_devices and cycle.lacks_devices
        self.claims = WinnableClaims(self.cluster, {claim.uid for claim in cycle.claims}, is_on=wins)
        self.won: list[_Won] = []
        self.refused: dict[str, Mask] = {}
        self.last = -1
        self._kinds: dict[Hashable, bool] = {}
        self._free: dict[Hashable, int] = {}
        now = self.cluster.fleet.current
        self._limits = frozenset(limit.account for required in cycle.asks for limit in now.bindings(required.pending))

    # -- the nodes in order, until enough are candidates

    def run(self, start: int) -> None:
        """Try the nodes in the order of their numbers from this one on."""
        if not self.helped:
            return  # which nodes lack devices, and who waits there, may take long to find out
        waiting = self._waiting()
        tried = self.helped & (self._with_lower | waiting)
        if nobody := self.helped & ~tried:
            self.refused[NO_VICTIMS] = nobody
        wanted = self._wanted()
        simple = tried & self._simple
        for numbers in windows(simple, start, wanted):
            if self._try_together(numbers, wanted):
                break
        for numbers in windows(tried & ~simple, start, min(wanted, MOST_BOUNDED)):
            if self.by.tries_all:
                self.won += filter(None, map(self.one, numbers))
            elif self._try_best_first(numbers):
                break

    def _wanted(self) -> int:
        """How many candidates are enough, of which one violates no budget."""
        most = self.helped.bit_count()
        return most or 1 if self.by.tries_all else max(1, min(max(most * LEAST_SHARE // 100, LEAST_NODES), most))

    def _try_together(self, numbers: Sequence[int], wanted: int) -> bool:
        """Whether it is enough by then."""
        together = nodes_at_once(self.by.table, self.cluster, numbers, self.priority, self._requests)
        has_clean = any(not one.violations for one in self.won)
        for place, number in enumerate(numbers):
            self.last = number
            won = self._of_many(together, place)
            if won is not None:
                self.won.append(won)
                has_clean = has_clean or not won.violations
                if len(self.won) >= wanted and has_clean and not self.by.tries_all:
                    return True
        for resource, nodes in together.lacking(len(numbers), self.cluster.infos.size):
            self._refuse(shortage_reason(resource), nodes)
        return False

    def _try_best_first(self, numbers: Sequence[int]) -> bool:
        """Whether one of the nodes can be won; those that promise to cost the least are looked at first.

        As many of them as there is time for: what the best of them gives has to be found out as well.
        """
        # Differs from kube-scheduler, which looks at all of them.
        is_late = self.cluster.time_limit.until(_TO_CHOOSE)
        self.last = numbers[-1]
        least = min((one.cost for one in self.won), default=None)
        equal, enough = 0, MOST_EQUAL if self.claims.is_on else 1
        queue = [(bound, number) for number in numbers if (bound := self._bound(number)) is not None]
        heapify(queue)
        while queue:
            bound, number = heappop(queue)
            if least is not None and (is_late() or bound > least or (bound == least and equal >= enough)):
                break
            won = self.one(number)
            if won is not None:
                self.won.append(won)
                equal = equal + 1 if won.cost == least else 1 if least is None or won.cost < least else equal
                least = won.cost if least is None else min(least, won.cost)
        return bool(self.won)

    @property
    def promising(self) -> Mask:
        """The nodes that can be won as far as their lower pods and free devices tell."""
        numbers = numbers_once(self.helped & self._with_lower).tolist()
        return sum(1 << number for number in numbers if self._bound(number) is not None)

    def _bound(self, number: int) -> EvictionCost | None:
        """What the node costs at least; None where it cannot be won, whoever goes."""
        self.cluster.time_limit.look()
        lower = self.by.table.lower(number, self.priority, self.claims.most_freed)
        lower = [one for one in lower if not self._is_spared(one[0])] if self._spares else lower
        if not self.claims.is_on or not self._lacking >> number & 1:
            return least_cost(lower, 0)
        if not self._could_give(number):
            self._refuse(NO_DEVICES, 1 << number)
            return None
        if self.claims.unused(self.cluster.name_of(number)):
            return cost_of((), 0)
        missing = least_devices(self.cycle.asks_of(number).pending) - self._free_devices(number)
        bound = least_cost(lower, missing)
        if bound is None:
            self._refuse(NO_DEVICES, 1 << number)
        return bound

    def _free_devices(self, number: int) -> int:
        usage = self.cluster.fleet.usage_on(
            number
        )  # the same for most nodes of a kind: all of their devices are in use
        if usage not in self._free:
            self._free[usage] = self.claims.free_devices(number)
        return self._free[usage]

    @cached_property
    def _lacking(self) -> Mask:
        return union(required.nodes & ~self.cycle.giving(required) for required in self.cycle.asks)

    def _could_give(self, number: int) -> bool:
        """Whether devices like those of the node suffice where nobody has any of them."""
        cycle, fleet = self.cycle, self.cluster.fleet
        if self._limits:  # whose devices would come free differs by node
            return True
        required = cycle.asks_of(number)
        pending = required.pending
        kind = required.nodes, fleet.kinds(pending).of(number)
        if kind not in self._kinds:
            # Not what comes free on this node: what is kept for others, or set aside, differs by node.
            self._kinds[kind] = isinstance(fleet.allocate_unused(number, pending), Allocated)
        return self._kinds[kind]

    def best(self) -> NodeToWin:
        """The candidate that costs the least; of equals the one whose devices are better, then the first by name."""
        least = min(one.cost for one in self.won)
        equal = sorted((one for one in self.won if one.cost == least), key=lambda one: self.cluster.name_of(one.number))
        if len(equal) == 1 or not self.claims.is_on:
            return equal[0].made()
        is_late = self.cluster.time_limit.until(_TO_COMPARE)
        best, most = equal[0], self._merit(equal[0])
        for candidate in equal[1:MOST_EQUAL]:
            if is_late():
                break
            if (merit := self._merit(candidate)) > most:
                best, most = candidate, merit
        return best.made()

    def _merit(self, one: "_Won") -> tuple[float, ...]:
        """How good the node's devices are for the pod, by its policy, then by what they leave whole; more is better."""
        number = one.number
        with self._gone(one.made()):
            cycle = self.cycle.anew()
            required = cycle.asks_of(number)
            pending = required.pending
            scorer = self.cluster.scorer_of(self.pod)
            score = scorer.best(str(self.pod), required.requests, pending, 1 << number)[0] if scorer else 0.0
            policy = cycle.policy_on(number, pending) or cycle.fleet.policy
            outcome = cycle.fleet.by(ThenLeastFragmentation(policy)).allocate(number, pending)
        return (score, *outcome.score) if isinstance(outcome, Allocated) else ()

    def all(self) -> list[NodeToWin]:
        """All candidates."""
        return [one.made() for one in self.won]

    @cached_property
    def _with_lower(self) -> Mask:
        return mask_of(self.cluster.by_priority.lower_than(self.priority, self.cluster.infos.size))

    def _waiting(self) -> Mask:
        """The nodes with claims that come free whoever goes."""
        numbers = map(self.cluster.number_of, self.claims.nodes_of_unused if self.claims.is_on else ())
        return union(1 << number for number in numbers if number is not None)

    # -- nodes of which only their own resources are short

    @cached_property
    def _simple(self) -> Mask:
        """The nodes that let the pod pass but for their resources, whoever is there."""
        cycle, required = self.cycle, self.cycle.asks[0]
        is_known = NODE_RESOURCES_FIT in cycle.plugins and len(cycle.asks) == 1 and not required.problem
        is_known = is_known and self._spares is None
        if not is_known or self.pod.pod_affinity.required or cycle.must_fit_with_devices(required):
            return 0
        passed = cycle.view.signature.allowed & cycle.reached & cycle.giving(required)
        for plugin in cycle.plugins:
            if plugin.dynamic and plugin is not NODE_RESOURCES_FIT:
                passed &= ~plugin.dynamic.refused(cycle.view)
        return passed & ~union(1 << number for number in cycle.view.nominated)

    @property
    def _requests(self) -> PodRequests:
        return self.cycle.asks[0].requests

    def _of_many(self, found: NodesAtOnce, place: int) -> "_Won | None":
        if not found.fits[place]:
            return None
        number, cost = found.numbers[place], found.costs[place]
        return _Won(cost, number, cost[0], lambda: found.victims_on(place), self.cluster)

    # -- any node

    def one(self, number: int, going: Collection[str] = ()) -> "_Won | None":
        """The node as a candidate. going: uids of those who go in any case."""
        units, unused = self._who_may_go(number), self.claims.unused(self.cluster.name_of(number))
        if not units and not unused:
            self._refuse(NO_VICTIMS, 1 << number)
            return None
        reprieve = Reprieve.of(units, self.cluster.budgets)
        victims = None if unused or going else self._guessed(number, reprieve.units)
        if victims is None:
            with self.cluster.released(unused):
                victims = self._found(number, reprieve.units, going)
        if victims is None:
            return None
        victims.sort(key=lambda unit: unit.importance)
        violations, _ = reprieve.violations(victims)
        return _Won(cost_of(victims, violations), number, violations, lambda: victims, self.cluster)

    def _guessed(self, number: int, units: Sequence[Unit]) -> list[Unit] | None:
        """Who has to go where devices are all that is short; None where that is not so simple."""
        needed = least_devices(self.cycle.asks_of(number).pending) if self.claims.is_on else 0
        if not needed or self._limits:
            return None
        missing, node = needed - self._free_devices(number), self.cluster.name_of(number)
        gains = [(unit, sum(map(self.claims.most_freed, unit.pods))) for unit in units]

        def fits_without(going: Sequence[Unit]) -> bool:
            with self._away(node, going):
                return self._fits(number)

        return guessed_victims(gains, missing, missing if missing > 0 else needed, fits_without)

    def _found(self, number: int, units: Sequence[Unit], going: Collection[str]) -> list[Unit] | None:
        """Who has to go, by looking; None where it does not help."""
        node = self.cluster.name_of(number)
        with self._away(node, units):
            if not self._fits(number):
                for reason in self._reasons(number):
                    self._refuse(reason, 1 << number)
                return None
        gone = [unit for unit in units if not set(going).isdisjoint(unit.uids)] if going else []
        others = [unit for unit in units if unit not in gone] if going else units
        with self._away(node, gone):
            return [*gone, *victims_of(others, partial(self._fits, number), partial(self._away, node))]

    def lower(self, number: int) -> list[Unit]:
        """Who could go from the node, the most important first."""
        units = lower_units(self.cluster.by_priority.on(number), self.priority)
        return [unit for unit in units if not self._is_spared(unit)] if self._spares else units

    def _is_spared(self, unit: Unit) -> bool:
        return self._spares is not None and any(map(self._spares, unit.pods))

    def _who_may_go(self, number: int) -> list[Unit]:
        """The lower units; of the pod's own tenant alone where a limit refuses it however many others go."""
        units, node = self.lower(number), self.cluster.name_of(number)
        others = [unit for unit in units if not self._is_of_tenant(unit)] if self._limits else []
        if not others:
            return units
        with self._away(node, others):
            is_limited = any(self._is_limited(number, required) for required in self.cycle.asks)
        return [unit for unit in units if unit not in others] if is_limited else units

    def _is_of_tenant(self, unit: Unit) -> bool:
        """Whether what its pods have counts for a limit of the pod."""
        limits = self.cluster.fleet.current.limited.limits
        return all(not self._limits.isdisjoint(limits.of(pod.namespace)) for pod in unit.pods)

    def _is_limited(self, number: int, required: Requirements) -> bool:
        if not required.nodes >> number & 1:
            return False
        return isinstance(inner_cause(self.cluster.fleet.allocate(number, required.pending)), LimitReached)

    @contextmanager
    def _away(self, node: str, units: Sequence[Unit]) -> Iterator[None]:
        pods = [pod for unit in units for pod in unit.pods]
        # Differs from kube-scheduler, to which a claim for one pod is free when a pod goes that has one of its name in
        # another namespace.
        names = {name for pod in pods for name in pod.volumes.named_claims} if self._is_strict else ()
        with (
            self.cluster.volumes.not_named(names),
            self.cluster.without([pod.uid for pod in pods], partial(self.claims.frees, node)),
        ):
            yield

    def _fits(self, number: int) -> bool:
        self.cluster.time_limit.look()
        cycle = self.cycle.anew()
        asked = cycle.asks_of(number)
        left = cycle.allowed(asked) & cycle.reached & 1 << number
        return bool(left and union(cycle.able(asked, left).values()))

    def _reasons(self, number: int) -> Iterator[str]:
        """Why not, as the node says with everybody lower gone."""
        cycle = self.cycle.anew()
        asked = replace(cycle.asks_of(number), nodes=1 << number)
        left = cycle.allowed(asked)
        able = cycle.able(asked, left & cycle.reached) if left & cycle.reached else {}
        rejections = Rejections.of(cycle, EligibleNodes(asked, left), union(able.values())).found()
        return (rejected.reason for _, rejected in rejections if rejected.nodes >> number & 1)

    def _refuse(self, reason: str, nodes: Mask) -> None:
        self.refused[reason] = self.refused.get(reason, 0) | nodes

    # -- what the best one gives

    def given(self, best: NodeToWin) -> tuple[Claim, ...]:
        """The pod's claims without devices, with what they get there."""
        if not self.cycle.lacks_devices:
            return ()
        with self._gone(best):
            return self.cycle.anew().given(best.number)

    def claims_of(self, best: NodeToWin) -> tuple[str, ...]:
        """The claims that come free for it."""
        if not self.claims.is_on:
            return ()
        held = self._held(best)
        with self._gone(best):
            left = self._held(best)
        return tuple(uid for uid in held if uid not in left)

    def _held(self, best: NodeToWin) -> list[str]:
        claims = self.cluster.claims
        held = claims.held_by(best.pods)
        unused = self.claims.unused(best.node)
        more = [uid for uid in unused if (holding := claims.holding(uid)) and holding.counted is not None]
        return list(dict.fromkeys([*held, *more]))

    @contextmanager
    def _gone(self, best: NodeToWin) -> Iterator[None]:
        with self.cluster.released(self.claims.unused(best.node)), self._away(best.node, best.victims):
            yield
