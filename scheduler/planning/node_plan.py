"""How many nodes of which group to add so that all that is pending fits, at the least cost.

A plan is a number of nodes for each group. It holds if the scheduler's own decision, on the cluster with these nodes,
places every pod and claim that was pending. First a plan is grown until it holds, and reduced to what it needs; then
the cheaper ones are tried in the order of their cost, as far as the budget goes.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from heapq import heappop, heappush

from allocator.explain.text import OPERATOR, nearest_of, node_text
from allocator.model import Claim
from allocator.outcome import Allocated, AllocationError
from scheduler.core_v1.pod import Pod
from scheduler.decision.why_not import answers_of
from scheduler.input.inventory import Inventory
from scheduler.offline.placement import PlacedPod, Placement, PodToPlace, Result, UnplacedPod
from scheduler.planning.lower_bound import BoundedDemand, Relaxation, relaxation_of
from scheduler.planning.node_groups import OfferedGroup, enlarged, names_of, one_of_each
from scheduler.simulation.demand import Demand
from scheduler.state.pods import CPU, pod_requests

PlanCounts = tuple[int, ...]
"""A number of nodes for each group."""

MOST_DECISIONS = 200_000
"""Of pods, for plans that are tried beside the first one that holds; each plan decides all pods anew."""

MOST_LOOKED_AT = 100_000
"""Plans that are looked at in the order of their cost; most are too small without being tried."""


class Objective(StrEnum):
    """What a plan needs least of."""

    PRICE = "price"
    NODES = "nodes"
    DEVICES = "devices"


class Order(StrEnum):
    """In which pods are placed. Beside the first one, all of them are those in which most packings succeed."""

    QUEUE = "queue"
    """By priority, age and name, as the scheduler takes them."""
    LARGEST = "largest first"
    """By the devices that they ask for."""
    MOST_CPU = "most cpu first"
    CHOOSIEST = "choosiest first"
    """Those that the fewest groups can take, then the largest."""


@dataclass(frozen=True, slots=True)
class World:
    """A cluster, and what is pending in it."""

    placement: Placement
    pods: Sequence[Pod]
    claims: Sequence[Claim]
    """Those that no pod uses."""


@dataclass(frozen=True, slots=True)
class NeverFits:
    """A pod, or a claim that no pod uses, that no node of any group can take. nearest: the group that comes closest."""

    name: str
    nearest: str
    lacks: str
    """What that group lacks, or why it is refused."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The answer."""

    groups: Sequence[OfferedGroup]
    counts: PlanCounts
    """How many nodes of each are added."""
    cost: Fraction
    """By the objective."""
    is_best: bool
    """No cheaper plan holds: all were tried, or the bound is reached."""
    order: Order
    """In which all that was pending is placed with it."""
    bound: Fraction | None
    """What every plan costs at least; None where nothing can work it out."""
    never: Sequence[NeverFits]
    """What fits nowhere, and is not planned for."""
    unplaced: Sequence[UnplacedPod]
    """What does not fit even so: the groups have no more nodes."""
    placed: Sequence[PlacedPod]
    """What was pending, where it goes."""
    world: World
    """The enlarged cluster with all of that."""
    names: Sequence[Sequence[str]]
    """Of the nodes of each group."""
    tried: int
    """Plans that were tried."""

    @property
    def gap(self) -> Fraction | None:
        """What the plan costs more than the bound, of its cost."""
        if self.bound is None:
            return None
        return max(Fraction(0), self.cost - self.bound) / self.cost if self.cost else Fraction(0)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What becomes of all that is pending with a plan, in that order."""

    counts: PlanCounts
    order: Order
    results: Sequence[Result]
    world: World


class NodePlanner:
    """Plans for what is pending in the inventory. world_of: an inventory as a cluster."""

    def __init__(
        self,
        inventory: Inventory,
        groups: Sequence[OfferedGroup],
        objective: Objective,
        world_of: Callable[[Inventory], World],
        progress: Callable[[int], None] = lambda _tried: None,
    ) -> None:
        self._inventory = inventory
        self._groups = groups
        self._world_of = world_of
        self._progress = progress
        self._tried = 0
        self._last: _Trial | None = None
        self._orders: Sequence[Order] = ()
        self._fitting_of: dict[str, Sequence[int]] = {}
        self._asked: Mapping[str, Pod | Claim] = {}
        self._skipped: AbstractSet[str] = frozenset()
        self._fresh = world_of(one_of_each(inventory, groups))
        self._demand = Demand(self._fresh.placement.cluster, self._fresh.placement.claims)
        self._first_names = [name for [name] in names_of(inventory, groups, [1] * len(groups))]
        costs = zip(groups, self._first_names, strict=True)
        self._costs = [_cost_of(group, objective, self._fresh, name) for group, name in costs]
        self._least: PlanCounts = tuple(group.least for group in groups)
        self._most = [group.most for group in groups]

    def plan(self) -> NodePlan:
        """The plan. Cost: a decision for each pod and plan that is tried."""
        before = self._world_of(self._inventory)
        pending: list[Pod | Claim] = [*before.pods, *before.claims]
        self._asked = {_key(one): one for one in pending}
        # Beyond a node for each pod, another one has no use.
        self._most = [min(one.most, one.least + len(self._asked)) for one in self._groups]
        for refused in self._left(self._least):
            key = _key_of(refused)
            self._fitting_of[key] = self._fitting(self._asked[key])
        self._skipped = {key for key, groups in self._fitting_of.items() if not groups}
        self._orders = tuple(one for one in Order if one is not Order.QUEUE)
        counts = self._reduced(self._grown())
        bound, is_best, left = None, False, self._left(counts)
        if not left:
            relaxation = self._relaxation(before)
            bound = relaxation.least_cost(self._costs) if relaxation else None
            counts, is_best = self._cheapest(counts, relaxation, bound or Fraction(0))
        trial = self._try(counts)
        never = [one for one in trial.results if isinstance(one, UnplacedPod) and _key_of(one) in self._skipped]
        return NodePlan(
            self._groups,
            counts,
            self._cost(counts)[0],
            is_best,
            trial.order,
            bound,
            [self._never(self._asked[_key_of(one)], one.reason) for one in never],
            left,
            [one for one in trial.results if isinstance(one, PlacedPod) and _key_of(one) in self._asked],
            trial.world,
            names_of(self._inventory, self._groups, counts),
            self._tried,
        )

    def _cost(self, counts: PlanCounts) -> tuple[Fraction, int]:
        """By the objective, then in nodes."""
        total = sum((cost * count for cost, count in zip(self._costs, counts, strict=True)), Fraction(0))
        return total, sum(counts)

    def _try(self, counts: PlanCounts) -> _Trial:
        """What becomes of all that is pending with these nodes; only the last plan is remembered.

        In the order of the queue, and if something is left then, in each other order that the plan may hold in.
        """
        if self._last is None or self._last.counts != counts:
            self._last = self._trial(counts, Order.QUEUE)
            for order in self._orders:
                if not self._refused(self._last):
                    break
                trial = self._trial(counts, order)
                if not self._refused(trial):
                    self._last = trial
        return self._last

    def _trial(self, counts: PlanCounts, order: Order) -> _Trial:
        self._tried += 1
        self._progress(self._tried)
        world = self._world_of(enlarged(self._inventory, self._groups, counts))
        run = partial(world.placement.run, progress=lambda _done, _all: None)
        if order is Order.QUEUE:
            return _Trial(counts, order, run(world.pods, world.claims), world)
        together: dict[Hashable, list[Pod]] = {}
        for pod in sorted(world.pods, key=self._sort_keys(order)):
            together.setdefault((pod.namespace, pod.group) if pod.group else pod.uid, []).append(pod)
        results = [one for pods in together.values() for one in run(pods, [])]
        return _Trial(counts, order, [*results, *run([], world.claims)], world)

    def _sort_keys(self, order: Order) -> Callable[[Pod], tuple[float, ...]]:
        amount = self._demand.amount
        match order:
            case Order.MOST_CPU:
                return lambda pod: (-_cpu(pod), -amount(pod))
            case Order.CHOOSIEST:
                return lambda pod: (len(self._fits_on(pod)), -amount(pod), -_cpu(pod))
            case _:
                return lambda pod: (-amount(pod), -_cpu(pod))

    def _fits_on(self, pod: Pod) -> Sequence[int]:
        key = _key(pod)
        if key not in self._fitting_of:
            self._fitting_of[key] = self._fitting(pod)
        return self._fitting_of[key]

    def _refused(self, trial: _Trial) -> list[UnplacedPod]:
        """What is left in that trial of all that can be placed."""
        wanted = self._asked.keys() - self._skipped
        return [one for one in trial.results if isinstance(one, UnplacedPod) and _key_of(one) in wanted]

    def _left(self, counts: PlanCounts) -> list[UnplacedPod]:
        """What the plan does not place of all that can be placed."""
        return self._refused(self._try(counts))

    # -- which groups can take a pod at all

    def _fitting(self, asked: Pod | Claim) -> Sequence[int]:
        """The groups of which a node without any pod can take it; all of them where that depends on other pods."""
        look = self._look(asked)
        if look.result is not None:
            return ()
        cycle, needs_others = self._fresh.placement.cycle(look), isinstance(asked, Pod) and _needs_others(asked)
        if cycle.claims_refused_everywhere() or (not needs_others and cycle.refused_everywhere()):
            return ()
        answers = dict(answers_of(cycle))
        fitting = [place for place, name in enumerate(self._first_names) if isinstance(answers.get(name), Allocated)]
        if not fitting and needs_others:
            return range(len(self._groups))
        return fitting

    def _never(self, asked: Pod | Claim, reason: str) -> NeverFits:
        """reason: of the refusal, where it holds for every node."""
        placement, look = self._fresh.placement, self._look(asked)
        name = f"pod {asked}" if isinstance(asked, Pod) else f"claim {asked}"
        if isinstance(look.result, UnplacedPod):
            return NeverFits(name, "", look.result.reason)
        cycle = placement.cycle(look)
        if refused := cycle.refused_everywhere():
            return NeverFits(name, "", refused[1])
        answers = placement.with_guilty_operands(cycle, dict(answers_of(cycle)))
        texts = {key: str(one) if isinstance(one, AllocationError) else one for key, one in answers.items()}
        if not texts:
            return NeverFits(name, "", reason)
        nearest = nearest_of(texts)
        group = self._groups[self._first_names.index(nearest)].name
        return NeverFits(name, group, node_text(texts[nearest], reader=OPERATOR))

    def _look(self, asked: Pod | Claim) -> PodToPlace:
        """Against one new node of each group."""
        placement = self._fresh.placement
        return placement.look(asked) if isinstance(asked, Pod) else placement.look_at_claim(asked)

    # -- the first plan that holds

    def _grown(self) -> PlanCounts:
        """The least, with more nodes of the group that takes most for its cost, until all fit or no group helps."""
        counts, in_vain = self._least, 0
        while left := self._left(counts):
            # Where no group is left that takes them, another one may, by taking those that are in their way.
            keys = [_key_of(one) for one in left]
            step = self._step(counts, keys) or self._step(
                counts, [key for key in self._asked if key not in self._skipped]
            )
            if step is None:
                return counts
            group, number = step
            # Nodes that do not help may be filled by others that were placed before: the more there are, the fewer.
            number = min(self._most[group] - counts[group], number << in_vain)
            counts = (*counts[:group], counts[group] + number, *counts[group + 1 :])
            in_vain = in_vain + 1 if len(self._left(counts)) >= len(left) else 0
        return counts

    def _step(self, counts: PlanCounts, left: Sequence[str]) -> tuple[int, int] | None:
        """A group, and how many nodes of it: as many as those that are left fill, at least one."""
        best: tuple[Fraction, int, int] | None = None
        every = range(len(self._groups))
        for place in every:
            able = [key for key in left if place in self._fitting_of.get(key, every)]
            if counts[place] >= self._most[place] or not able:
                continue
            taken = max(1, self._taken(place, [self._asked[key] for key in able]))
            number = min(self._most[place] - counts[place], max(1, len(able) // taken))
            score = (self._costs[place] / taken, place, number)
            best = min(best, score) if best else score
        return best[1:] if best else None

    def _taken(self, place: int, asked: Sequence[Pod | Claim]) -> int:
        """How many of them one node of the group takes."""
        world = self._world_of(one_of_each(self._inventory, [self._groups[place]]))
        pods = [one for one in asked if isinstance(one, Pod)]
        claims = [one for one in asked if isinstance(one, Claim)]
        results = world.placement.run(pods, claims, lambda _done, _all: None)
        return sum(isinstance(one, PlacedPod) for one in results)

    def _reduced(self, counts: PlanCounts) -> PlanCounts:
        """With as few nodes of each group as it takes, the dearest first; the others stay as they are."""
        if self._left(counts):
            return counts
        for place in sorted(range(len(counts)), key=lambda place: -self._costs[place]):
            low, high = self._least[place], counts[place]
            while low < high:
                middle = (low + high) // 2
                fewer = (*counts[:place], middle, *counts[place + 1 :])
                if self._left(fewer):
                    low = middle + 1
                else:
                    high = middle
            counts = (*counts[:place], high, *counts[place + 1 :])
        return counts

    # -- the cheapest one

    def _relaxation(self, before: World) -> Relaxation | None:
        every = range(len(self._groups))
        demands = [
            BoundedDemand(one, frozenset(self._fitting_of.get(key, every)))
            for key, one in self._asked.items()
            if key not in self._skipped
        ]
        return relaxation_of(demands, before.placement, self._fresh.placement, self._groups, self._first_names)

    def _cheapest(self, counts: PlanCounts, relaxation: Relaxation | None, bound: Fraction) -> tuple[PlanCounts, bool]:
        """(the cheapest plan that was found, whether there is no cheaper one)."""
        most_tried = self._tried + max(1, MOST_DECISIONS // max(1, len(self._asked)))
        for candidate in self._by_cost(self._cost(counts)):
            if candidate is None or self._tried >= most_tried:
                return counts, self._cost(counts)[0] <= bound
            if self._cost(candidate)[0] < bound or (relaxation and not relaxation.allows(candidate)):
                continue
            if not self._left(candidate):
                return candidate, True
        return counts, True

    def _by_cost(self, below: tuple[Fraction, int]) -> Iterator[PlanCounts | None]:
        """The plans that cost less, the cheapest first; None where there are more than are looked at."""
        queue = [(self._cost(self._least), self._least)]
        known = {self._least}
        looked_at = 0
        while queue:
            cost, counts = heappop(queue)
            if cost >= below:
                return
            looked_at += 1
            if looked_at > MOST_LOOKED_AT:
                yield None
                return
            yield counts
            for place, most in enumerate(self._most):
                if counts[place] < most:
                    more = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
                    if more not in known:
                        known.add(more)
                        heappush(queue, (self._cost(more), more))


def _cost_of(group: OfferedGroup, objective: Objective, fresh: World, name: str) -> Fraction:
    """Of one node, of which the first has that name. A device and all that is cut from it count once."""
    match objective:
        case Objective.PRICE:
            return group.price
        case Objective.NODES:
            return Fraction(1)
        case Objective.DEVICES:
            cluster = fresh.placement.cluster
            number = cluster.number_of(name)
            assert number is not None
            return Fraction(len(cluster.free_resources.unit_cells(number)))


def _cpu(pod: Pod) -> int:
    return pod_requests(pod).amounts.get(CPU, 0)


def _key(one: Pod | Claim) -> str:
    return f"pod {one.namespace}/{one.name}/{one.uid}" if isinstance(one, Pod) else f"claim {one}"


def _key_of(result: Result) -> str:
    return _key(result.pod) if result.pod is not None else _key(result.claims[0])


def _needs_others(pod: Pod) -> bool:
    """Whether other pods decide where it can go, so that a cluster without any says nothing."""
    return bool(pod.pod_affinity.required or pod.spread)
