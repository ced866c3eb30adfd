"""Claims to what the search works on: each alternative of each request with its candidates on a view.

Everything that is known of a request before the first pick: its class exists, its mode is known, its claim is within
the limit, and the devices that pass the static rules, as a funnel that explains a refusal.
Source: KEP-4381; limits from resource.k8s.io/v1 (AllocationResultsMaxSize).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from sys import intern
from typing import Final

from allocator.bits import Mask, bits
from allocator.cluster.node_affinity import InvalidNodeSelector, reaches
from allocator.cluster.snapshot import Selection, Snapshot, selectors_of
from allocator.constraints import AttributeRule, covers, joint_rules_of, rules_of
from allocator.features import FEATURES, concerned
from allocator.features.consumable_capacity import Capacity, ConsumableCapacity
from allocator.features.contract import NodeAttempt
from allocator.memo import Topic
from allocator.model import Alternative, Claim, Constraint, DeviceClass
from allocator.outcome import BrokenPool, InvalidClaim, PoolNotWhole
from allocator.search.rules import Candidates, Category, Rule, Stage
from allocator.words import did_you_mean

# Why a device cannot be decided: made into words when the search reaches it, and not before.


def failure(snapshot: Snapshot, attempt: NodeAttempt, claim: Claim, alternative: Alternative, position: int) -> str:
    """What fails first on the device: a selector, its node selector, or what a feature cannot work out."""
    device = attempt.view.devices[position]
    for source, number, expression in selectors_of(snapshot.classes[alternative.class_name], alternative):
        fails = snapshot.selectors.select(expression, attempt.view, attempt.is_cancelled).errors >> position & 1
        if fails and (problem := snapshot.selectors.error(expression, device, attempt.is_cancelled)):
            owner = source if source.startswith("class") else f"claim {claim}, {source}"
            return f"{owner}: selector #{number} on device {device.id}: {problem}"
    try:
        reaches(device.reach, attempt.node)
    except InvalidNodeSelector as error:
        return f"device {device.id}: node selector: {error}"
    errors = (feature.failures(attempt, alternative).get(position) for feature in concerned(attempt.view, "failures"))
    return f"claim {claim}, request {alternative.name}: device {device.id}: {next(filter(None, errors))}"


MAX_RESULTS: Final = 32
"""Devices that one claim can hold (AllocationResultsMaxSize)."""


_CAPACITY: Final = ConsumableCapacity()

_WORK_OF_AN_ALTERNATIVE: Final = 100
"""To find its candidates, whatever its selectors are: masks of all devices are combined."""


_COSTLY: Final = 5_000
"""Work of selectors that is charged to each attempt, though the answers are known after the first one."""

_WORK_OF_AN_ATTRIBUTE: Final = 4
"""To look up the value that a constraint compares, for each device."""


@dataclass(slots=True, eq=False)
class Problem:
    """One attempt, ready for the search.

    requests: of all claims in order; each with its alternatives. constraints: for the explanation of a refusal.
    may_end: meeting a device may end the attempt on all nodes. is_exhaustive: every choice has to be tried in order,
    for that reason or since the order of picks decides whether they are valid.
    """

    requests: tuple[tuple[Candidates, ...], ...]
    constraints: tuple[tuple[Constraint, AttributeRule], ...]
    may_end: bool
    is_exhaustive: bool

    def short(self) -> Candidates | None:
        """Of the first request for which there are too few devices the first alternative; None if there is none."""
        for alternatives in self.requests:
            if all([candidates.falls_short for candidates in alternatives]):  # noqa: C419 - faster
                return alternatives[0]
        return None

    def let_go(self) -> None:
        """It is of no use any more: rules and the candidates that they watch refer to each other no longer."""
        for _, rule in self.constraints:
            rule.cover_nothing()


def problem_of(snapshot: Snapshot, attempt: NodeAttempt, claims: Sequence[Claim]) -> Problem:
    """Prepare the search for all claims together.

    Raises InvalidClaim and InvalidPool for what ends the attempt on every node. Cost: O(requests times devices).
    """
    watching = [feature.rule(attempt) for feature in concerned(attempt.view, "rule")]
    builder = _CandidateBuilder(snapshot, attempt, tuple([watcher for watcher in watching if watcher is not None]))
    requests: list[tuple[Candidates, ...]] = []
    constraints: list[tuple[Constraint, AttributeRule]] = []
    joint = joint_rules_of(claims, attempt) if any([claim.joint for claim in claims]) else {}  # noqa: C419 - faster
    for number, claim in enumerate(claims):
        prepared = builder.requests(number, claim)
        if not claim.constraints and not claim.joint:
            requests.extend(prepared)
            continue
        rules = rules_of(claim.constraints, str(claim), attempt)
        every_rule = (*rules, *[joint[one] for one in claim.joint])
        bound = [tuple(_with_rules(c, every_rule) for c in alternatives) for alternatives in prepared]
        for constraint, rule in rules:
            _cover(attempt, constraint, rule, bound)
        requests.extend(bound)
        constraints.extend(rules)
    for shared, (constraint, rule) in joint.items():
        held = [alternatives for alternatives in requests if shared in claims[alternatives[0].claim].joint]
        _cover(attempt, constraint, rule, held)
    constraints.extend(joint.values())
    every = [candidates for alternatives in requests for candidates in alternatives]
    may_end = any(c.poison for c in every) or (bool(constraints) and any(map(_may_raise, every)))
    # Differs from kube-scheduler where not strict: an error on a device that the answer does not need may stay hidden.
    is_exhaustive = may_end and attempt.features.is_strict
    is_exhaustive |= any(not rule.is_monotone for rule in builder.watching)
    if constraints and not is_exhaustive:
        is_exhaustive = any(map(_depends_on_order, every))
    return Problem(tuple(requests), tuple(constraints), may_end, is_exhaustive)


def _cover(
    attempt: NodeAttempt, constraint: Constraint, rule: AttributeRule, requests: Sequence[Sequence[Candidates]]
) -> None:
    attempt.look_at_time()
    attempt.budget.charge(len(attempt.view.devices) * _WORK_OF_AN_ATTRIBUTE)
    rule.cover(requests, partial(_covers, constraint))


def devices_looked_at(snapshot: Snapshot, attempt: NodeAttempt, claims: Sequence[Claim]) -> Mask:
    """The devices that a request asks for, or that cannot be decided, whatever is in use.

    Raises InvalidClaim, InvalidPool.
    """
    looked_at = 0
    for meant in _every_meant(snapshot, attempt, claims):
        looked_at |= meant.selected | meant.poison
    return looked_at


def devices_selected(snapshot: Snapshot, attempt: NodeAttempt, claims: Sequence[Claim]) -> Mask:
    """The devices that a request asks for, whatever is in use, without those that cannot be decided.

    Raises InvalidClaim, InvalidPool.
    """
    selected = 0
    for meant in _every_meant(snapshot, attempt, claims):
        selected |= meant.selected
    return selected


def _every_meant(snapshot: Snapshot, attempt: NodeAttempt, claims: Sequence[Claim]) -> "list[_Meant]":
    builder = _CandidateBuilder(snapshot, attempt, ())
    alternatives = [(claim, one) for claim in claims for request in claim.requests for one in request.alternatives]
    return [builder.meant(claim, alternative) for claim, alternative in alternatives]


def _covers(constraint: Constraint, candidates: Candidates) -> bool:
    return covers(constraint, candidates.alternative)


def _with_rules(candidates: Candidates, rules: Sequence[tuple[Constraint, AttributeRule]]) -> Candidates:
    """The rules in the order of kube-scheduler's checks: under `All`, capacity comes after the constraints."""
    own = tuple(rule for constraint, rule in rules if covers(constraint, candidates.alternative))
    if candidates.forced is None:
        return replace(candidates, rules=(*candidates.rules, *own))
    first = tuple(rule for rule in candidates.rules if not isinstance(rule, Capacity))
    last = tuple(rule for rule in candidates.rules if isinstance(rule, Capacity))
    return replace(candidates, rules=(*first, *own, *last))


def _may_raise(candidates: Candidates) -> bool:
    """True if a constraint may end the attempt: under `All`, or because a derived attribute fails."""
    is_forced, rules = candidates.forced is not None, _constraining(candidates)
    return any((is_forced and rule.is_fatal) or rule.columns.of(candidates).failures for rule in rules)


def _depends_on_order(candidates: Candidates) -> bool:
    """True if a constraint may refuse in one order what it takes in another."""
    return any(rule.depends_on_order(candidates) for rule in _constraining(candidates))


def _constraining(candidates: Candidates) -> list[AttributeRule]:
    return [rule for rule in candidates.rules if isinstance(rule, AttributeRule)]


@dataclass(slots=True, eq=False)
class _Meant:
    """What is known of an alternative on a view, whatever is in use."""

    device_class: DeviceClass
    is_costly: bool
    """Its selectors took long to evaluate, which counts again."""
    selected: Mask
    """The devices that it means."""
    poison: Mask
    """Those that cannot be decided."""
    unusable: Mask
    """Those that it cannot have."""
    stages: tuple[Stage, ...]


_MEANT: Final[Topic[_Meant]] = Topic("what is meant")


def _require_known(claim: Claim) -> None:
    """Raises InvalidClaim if a field that could change the decision is not known."""
    if claim.unknown_fields:
        raise _unknown(f"claim {claim}", claim.unknown_fields)
    for number, constraint in enumerate(claim.constraints):
        if constraint.unknown_fields:
            raise _unknown(f"claim {claim}, constraint #{number}", constraint.unknown_fields)
    for request in claim.requests:
        if request.unknown_fields:
            raise _unknown(f"claim {claim}, request {request.name}", request.unknown_fields)
        for alternative in request.alternatives:
            if alternative.unknown_fields:
                raise _unknown(f"claim {claim}, request {alternative.name}", alternative.unknown_fields)


def _unknown(where: str, fields: tuple[str, ...]) -> InvalidClaim:
    return InvalidClaim(f"{where} has unknown fields: {', '.join(fields)}")


@dataclass(slots=True)
class _CandidateBuilder:
    snapshot: Snapshot
    attempt: NodeAttempt
    watching: tuple[Rule, ...]

    def requests(self, number: int, claim: Claim) -> list[tuple[Candidates, ...]]:
        """The requests of a claim in order. Raises InvalidClaim, InvalidPool."""
        if not self.attempt.features.is_strict:
            # Differs from kube-scheduler, which does not see them: they might say what must not be done.
            _require_known(claim)
        prepared_requests: list[tuple[Candidates, ...]] = []
        total = 0
        for request in claim.requests:
            if not request.alternatives:
                # Differs from kube-scheduler, which crashes on it.
                raise InvalidClaim(f"claim {claim}, request {request.name}: neither exactly nor firstAvailable is set")
            for alternative in request.alternatives:  # before any of them meets a pool that ends its attempt here
                _CAPACITY.check(self.attempt.features, claim, alternative)
            prepared = tuple([self._candidates(number, claim, alternative) for alternative in request.alternatives])
            least = min([_devices(candidates) for candidates in prepared])
            if least > MAX_RESULTS - total:
                raise InvalidClaim(
                    f"claim {claim}, request {request.name}: its {least} devices with the {total} of the requests "
                    f"before exceed the limit of {MAX_RESULTS} for one claim"
                )
            total += least
            prepared_requests.append(prepared)
        if total < 0:
            # Differs from kube-scheduler, which crashes on it.
            raise InvalidClaim(f"claim {claim}: the counts of its requests are negative")
        return prepared_requests

    def _candidates(self, number: int, claim: Claim, alternative: Alternative) -> Candidates:
        self.attempt.look_at_time()
        self.attempt.budget.charge(_WORK_OF_AN_ALTERNATIVE)
        for feature in concerned(self.attempt.view, "work"):
            self.attempt.budget.charge(feature.work(self.attempt, alternative))
        meant = self.meant(claim, alternative)
        selected, stages = meant.selected, meant.stages
        refused = meant.unusable
        for feature in concerned(self.attempt.view, "taken"):
            for stage in feature.taken(self.attempt, alternative):
                if stage.leaves_all:
                    stages = _without(stages, stage.refused)
                    refused &= ~stage.refused
                own = stage.refused & selected & ~refused
                if own:
                    stages = (*stages, Stage(stage.reason, own, stage.category, is_of_all=not stage.leaves_all))
                    refused |= own
                    selected &= ~own if stage.leaves_all else -1
        is_all = alternative.mode == "All"
        # A device in use is not looked at, so that it does not show that it cannot be decided.
        held = 0 if alternative.admin_access else self.attempt.in_use
        mask = (selected & ~refused) | (meant.poison & ~held)
        forced = tuple(bits(selected)) if is_all and selected else None
        need = len(forced) if forced is not None else 1 if is_all else max(alternative.count, 0)
        poison = meant.poison & mask
        return Candidates(number, alternative, mask, poison, need, forced, self.watching, stages)

    def meant(self, claim: Claim, alternative: Alternative) -> "_Meant":
        """What is known of the alternative, whatever is in use."""
        # What is remembered keeps its class, so that no other class gets that identity.
        class_id = id(self.snapshot.classes.get(alternative.class_name))
        key = (_MEANT, (class_id, alternative.name, alternative.fingerprint))
        meant = self.attempt.known.remember(key, lambda: self._work_out(claim, alternative))
        if meant.is_costly:
            for _, _, expression in selectors_of(meant.device_class, alternative):
                self._selection(expression)
        return meant

    def _selection(self, expression: str) -> Selection:
        """The devices that an expression selects; the budget is charged, also where they are known."""
        attempt = self.attempt
        return self.snapshot.selectors.select(expression, attempt.view, attempt.is_cancelled, attempt.budget)

    def _work_out(self, claim: Claim, alternative: Alternative) -> "_Meant":
        budget = self.attempt.budget
        before = budget.spent
        for feature in FEATURES:
            feature.check(self.attempt.features, claim, alternative)
        where = f"claim {claim}, request {alternative.name}"
        device_class = self._class(where, alternative)
        if alternative.mode not in ("ExactCount", "All"):
            raise InvalidClaim(f"{where}: unknown allocationMode {alternative.mode!r}")
        broken, earlier = self._broken_pool(claim, alternative) if alternative.mode == "All" else (None, 0)
        # Differs from kube-scheduler where not strict: it may come to a device that ends the attempt before the pool.
        if broken and (not self.attempt.features.is_strict or self.attempt.features.release.broken_pools_end):
            raise broken
        selected, poison, stages = self._select(device_class, alternative)
        if broken and not poison & earlier:
            raise broken
        if alternative.mode == "All" and poison:
            raise InvalidClaim(failure(self.snapshot, self.attempt, claim, alternative, next(bits(poison))))
        unusable = 0
        for feature in concerned(self.attempt.view, "unusable"):
            for stage in feature.unusable(self.attempt, alternative):
                if own := stage.refused & selected & ~unusable:
                    stages.append(Stage(stage.reason, own, stage.category, is_of_all=True))
                unusable |= stage.refused
        is_costly = budget.spent - before > _COSTLY
        return _Meant(device_class, is_costly, selected, poison, unusable, tuple(stages))

    def _class(self, where: str, alternative: Alternative) -> DeviceClass:
        for position, expression in enumerate(alternative.selectors):
            if expression is None:
                raise InvalidClaim(f"{where}, selector #{position}: no CEL expression (unknown kind of selector)")
        if not alternative.class_name:
            raise InvalidClaim(f"{where}: no device class is named")
        device_class = self.snapshot.classes.get(alternative.class_name)
        if device_class is None:
            meant = did_you_mean(alternative.class_name, self.snapshot.classes)
            raise InvalidClaim(f"{where}: device class {alternative.class_name} does not exist{meant}")
        for position, expression in enumerate(device_class.selectors):
            if expression is None:
                raise InvalidClaim(f"class {device_class.name}, selector #{position}: no CEL expression")
        if device_class.unknown_fields and not self.attempt.features.is_strict:
            raise _unknown(f"{where}: device class {device_class.name}", device_class.unknown_fields)
        return device_class

    def _broken_pool(self, claim: Claim, alternative: Alternative) -> tuple[BrokenPool | None, Mask]:
        """The first pool that does not let `All` say how many devices these are, and the devices of those before it."""
        before = 0
        for pool in self.attempt.view.pools:
            name, problem = f"pool {pool.id.driver}/{pool.id.pool}", ""
            if pool.missing:
                problem = f"{name} is being updated ({pool.missing})"
            elif pool.contradiction:
                problem = f"{name} is invalid: {pool.contradiction}"
            if problem:
                return BrokenPool(PoolNotWhole(str(claim), alternative.name), problem), before
            before |= sum(1 << position for position in self.attempt.view.positions(pool).values())
        return None, 0

    def _select(self, device_class: DeviceClass, alternative: Alternative) -> tuple[Mask, Mask, list[Stage]]:
        """(devices that the request means, devices that cannot be decided, the funnel so far)."""
        view, attempt = self.attempt.view, self.attempt
        funnel = _Left(view.all)
        if not attempt.features.is_strict:
            funnel.refuse("have unknown fields", view.unknown)
        for feature in concerned(view, "unseen"):
            for stage in feature.unseen(attempt, alternative):
                funnel.refuse(stage.reason, stage.refused)
        poison = 0
        for source, position, expression in selectors_of(device_class, alternative):
            selection = self._selection(expression)
            poison |= funnel.left & selection.errors
            if refused := funnel.left & ~selection.matches & ~selection.errors:
                funnel.refuse(selector_reason(position, source, expression), refused, "selector")
            funnel.left &= ~selection.errors
        poison |= funnel.left & view.unreadable
        funnel.left &= ~view.unreadable
        funnel.refuse("are on other nodes", ~view.reachable)
        for feature in concerned(view, "failures"):
            for device in feature.failures(attempt, alternative):
                poison |= funnel.left & 1 << device
        funnel.left &= ~poison
        for feature in concerned(view, "unselectable"):
            for stage in feature.unselectable(attempt, alternative):
                funnel.refuse(stage.reason, stage.refused)
        return funnel.left, poison, funnel.stages


@dataclass(slots=True)
class _Left:
    """The devices that are left, and the stages that refused others."""

    left: Mask
    stages: list[Stage] = field(default_factory=list)

    def refuse(self, reason: str, devices: Mask, category: Category = "other") -> None:
        """Leave these devices out."""
        if refused := self.left & devices:
            self.stages.append(Stage(reason, refused, category))
            self.left ^= refused


def _without(stages: Iterable[Stage], devices: Mask) -> tuple[Stage, ...]:
    """The stages without the devices."""
    left = (replace(stage, refused=stage.refused & ~devices) for stage in stages)
    return tuple(stage for stage in left if stage.refused)


def _devices(candidates: Candidates) -> int:
    """How many devices the alternative adds to its claim; `All` over none adds none."""
    if candidates.alternative.mode == "All":
        return len(candidates.forced or ())
    return candidates.alternative.count


def selector_reason(position: int, source: str, expression: str) -> str:
    """The reason of the devices that a selector refuses; one text object for all views that keep it."""
    return intern(f"fail selector #{position} of {source} ({shortened(expression)})")


def shortened(expression: str, width: int = 100) -> str:
    """The expression on one line, cut where it is longer."""
    line = " ".join(expression.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
