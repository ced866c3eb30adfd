"""Backtracking over masks: the first choice of devices, in order, that every rule accepts.

Requests are taken in order, the alternatives of a request in order of preference, devices by ascending position, or in
the order of a policy. Five techniques prevent exponential time without changing the answer: bounds (too few devices are
left), joint bounds (too few for several requests together), twins (devices that are alike fail together), memory (equal
fingerprints of the picks so far fail again), and subsets (a few requests have no answer on their own).
No feature is named here; features are rules. What a feature knows of bounds is in `room` and `joint_room` of its rule.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Final, Protocol, final

from allocator.bits import Mask, bits
from allocator.outcome import WORK_OF_A_STEP, AllocationError
from allocator.search.rules import Candidates, Classes, DeviceSlot, Effort, Pick, Rule, Trail
from cel import Cancelled

WORK_OF_A_BOUND: Final = 15
"""The work for an alternative that is still ahead, besides that of its rules."""

WORK_OF_A_COMPARISON: Final = 5
"""To find out how a rule sees a device."""

WORK_OF_A_KEY: Final = 6
"""To make a fingerprint, and the room that it takes, whatever is in it."""

DEVICES_OF_A_UNIT: Final = 64
"""Devices in the masks of a fingerprint that take as much room as one amount."""

MOST_KEPT = 1 << 22
"""Devices, values and amounts in the fingerprints remembered; some 100 MiB. Beyond, the oldest are forgotten."""

FIRST_TRY_STEPS = 1_000
"""Steps without an answer after which the search looks for a few requests that have no answer on their own.

Each set of requests gets as many steps; if that is not enough, both get ten times as many.
"""

MOST_FREE: Final = 100_000
"""Candidates of all alternatives; a search with more is charged from the beginning, others after the first failure."""

MOST_SUBSETS: Final = 200
"""How many sets of requests are tried then."""

Order = Callable[[DeviceSlot, Mask, Sequence[Pick]], Iterable[int]]
"""Which devices of a slot's domain to try first, after these picks; the others follow, ascending."""


@dataclass(frozen=True, slots=True)
class OrderEffort:
    """How much work it is to order the devices of a slot, as in `Effort`: as much as reading so many devices.

    whole: whatever the slot. device: in addition for each device of its domain. pick: for each pick made before.
    """

    whole: int = 0
    device: int = 20
    pick: int = 5


USUAL_ORDER_EFFORT: Final = OrderEffort()
"""Of an order that says nothing else: a key is worked out for each device, and devices are sorted by it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first answer, in the order of claims, requests and picks."""

    picks: tuple[Pick, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class NotFound:
    """There is no answer."""

    steps: int


@dataclass(frozen=True, slots=True)
class BudgetSpent:
    """The search stopped without knowing."""

    steps: int


class Poisoned(Exception):
    """The next device in order is one that cannot be decided, which ends the attempt."""

    def __init__(self, candidates: Candidates, device: int) -> None:
        super().__init__(candidates.alternative.name, device)
        self.candidates = candidates
        self.device = device


class _Spent(Exception):
    """What comes next would be more work than is left."""


class _Level(Protocol):
    """One decision of the present branch."""

    @property
    def claim(self) -> int:
        """The claim that it is about."""

    def advance(self) -> bool:
        """Undo the decision and make the next one; False if none is left."""

    def child(self) -> "_Level | None":
        """The decision that follows; None if there is nothing left to decide."""


@dataclass(slots=True)
class Terms:
    """The terms of a search."""

    budget_steps: int
    """How many steps the whole search may take; a step is a device or an alternative tried, or as much other work."""
    most_picks: int
    """How many devices one claim may pick; an alternative that would exceed it is passed over."""
    is_exhaustive: bool = False
    """Skip no choice: every meeting with a device that may end the attempt counts, or the order of picks matters."""
    may_end: bool = False
    """There are devices that may end the attempt (`Poisoned`, or a rule that raises)."""
    is_cancelled: Callable[[], bool] = lambda: False
    """Asked before every step."""
    order: Order | None = None
    """In which order devices are tried, from `policies.contract.search_by`; None is ascending."""
    order_effort: OrderEffort = USUAL_ORDER_EFFORT
    """What `order` costs. It may take half of the budget; from then on devices are tried ascending."""


class Search:
    """One attempt: all requests of all claims of a pod, on one view.

    requests: for each request in order its alternatives in order of preference.
    """

    def __init__(
        self, requests: Sequence[Sequence[Candidates]], terms: Terms, efforts: "_Efforts | None" = None
    ) -> None:
        self.requests = requests
        self.terms = terms
        self.trail = Trail()
        self.steps = 0
        self._work = 0
        self._work_to_order = terms.budget_steps * WORK_OF_A_STEP // 2
        self._efforts = efforts
        self._answered: set[int] = set()
        self._frames: list[_Level] = []
        self._memory: Memory | None = None
        self.has_failed = False  # True once a device was tried without success
        # Only where alternatives differ can the chosen ones exceed what a claim takes.
        self.may_exceed = any(len(alternatives) > 1 for alternatives in requests)

    def run(self) -> Answer | NotFound | BudgetSpent:
        """The first answer. Raises Poisoned, Cancelled, and what rules raise.

        The rules are left without a pick, however it ends: others may search with the same ones.
        """
        try:
            return self._run()
        except _Spent:
            return BudgetSpent(self.steps)
        finally:
            self._take_all_back()

    def _run(self) -> Answer | NotFound | BudgetSpent:
        if not self.requests:
            return Answer((), 0)
        if self._efforts is None and _candidates_of(self.requests) > MOST_FREE:
            self._efforts = _Efforts(self.requests)
        if self.is_hopeless(0):
            return NotFound(self.steps)
        limit_steps, budget = FIRST_TRY_STEPS, self.terms.budget_steps
        is_impossible = False
        while not is_impossible and not self.terms.is_exhaustive:
            answer = self._first(min(self.steps + limit_steps, budget))
            if not isinstance(answer, BudgetSpent) or self.steps >= budget:
                return answer
            self._take_all_back()
            # Subsets: that a few requests have no answer, the search would find again for each choice before them.
            is_impossible = self._has_hopeless_subset(limit_steps)
            limit_steps *= 10
        if is_impossible and not self.terms.may_end:
            return NotFound(self.steps)
        # There is no answer; but the search may still meet a device that ends the attempt.
        answer = self._first(budget)
        return NotFound(self.steps) if is_impossible and isinstance(answer, BudgetSpent) else answer

    def _take_all_back(self) -> None:
        """Undo all decisions; what failures have shown is kept."""
        self._frames.clear()
        self.trail.rewind(0)
        # Bounds are asked after the first failure: if the next try asked them sooner, it could pass over a device that
        # ends the attempt, and the answer would depend on how soon the search begins anew.
        self.has_failed &= not self.terms.may_end

    def _has_hopeless_subset(self, limit_steps: int) -> bool:
        """True if a few of the requests have no answer on their own, so that there is none for all.

        The search itself comes to such a subset only after the requests before it, once for each choice of theirs.
        """
        most = self.steps + (self.terms.budget_steps - self.steps) // 3
        for number, subset in enumerate(islice(_subsets(self.requests), MOST_SUBSETS)):
            if self.steps >= most:
                return False
            if number in self._answered:
                continue
            terms = replace(self.terms, budget_steps=min(limit_steps, most - self.steps), order=None)
            search = Search(subset, terms, self._efforts)
            try:
                answer = search.run()
            except (Poisoned, AllocationError):
                # The search for a subset may meet devices that the one for all never comes to.
                answer = Answer((), search.steps)
            self.steps += search.steps
            if isinstance(answer, NotFound):
                return True
            if isinstance(answer, Answer):
                self._answered.add(number)
        return False

    def _first(self, budget_steps: int) -> Answer | NotFound | BudgetSpent:
        """The first answer from the present branch on, until so many steps have been taken in all."""
        frames, terms = self._frames, self.terms
        if not frames:
            frames.append(RequestFrame(self, 0))
        while frames:
            if terms.is_cancelled():
                raise Cancelled(f"cancelled after {self.steps} steps")
            if self.steps >= budget_steps:
                return BudgetSpent(self.steps)
            if not frames[-1].advance():
                self._leave(frames.pop())
                continue
            child = frames[-1].child()
            if child is None:
                return Answer(self.picks(), self.steps)
            frames.append(child)
        return NotFound(self.steps)

    def _leave(self, done: _Level) -> None:
        """Leave a decision without further choices.

        A request of which every alternative asks for more than its claim may have fails with any other devices for the
        requests before it, so the next thing to try is another alternative for one of them.
        """
        if not isinstance(done, RequestFrame) or not done.exceeds:
            return
        frames = self._frames
        while frames and isinstance(frames[-1], SlotFrame) and frames[-1].claim == done.claim:
            frames.pop()
        if frames and isinstance(frames[-1], RequestFrame) and frames[-1].claim == done.claim:
            frames[-1].pass_over()

    @property
    def memory(self) -> "Memory":
        """Made at the first failure: most attempts have none."""
        if self._memory is None:
            if self._efforts is None:
                self._efforts = _Efforts(self.requests)
            if not self._may_do(work_to_remember(self.requests)):
                raise _Spent
            self._memory = Memory(self.requests, self._efforts)
        self.has_failed = True
        return self._memory

    def charge_slot(self, candidates: Candidates, domain: Mask, narrowed: Mask) -> None:
        """Count the work of the rules for a slot with that domain, narrowed to these devices.

        Only once something has failed: until then there is no more of it than there are slots.
        """
        if self._efforts is not None:
            self.charge(self._efforts.work_of(candidates, domain, narrowed))

    def charge(self, work: int) -> None:
        """Count work; `WORK_OF_A_STEP` of it is a step."""
        self._work += work
        if self._work >= WORK_OF_A_STEP:
            self.steps += self._work // WORK_OF_A_STEP
            self._work %= WORK_OF_A_STEP

    def _may_do(self, work: int) -> bool:
        """Whether so much work is left, which is counted; if not, the budget is spent."""
        if self.steps + work // WORK_OF_A_STEP > self.terms.budget_steps:
            self.steps = max(self.steps, self.terms.budget_steps)
            return False
        self.charge(work)
        return True

    def may_order(self, devices: int) -> bool:
        """Whether so many devices may still be put in order; counts the work."""
        effort = self.terms.order_effort
        work = effort.whole + effort.device * devices + effort.pick * len(self._frames)
        if work > self._work_to_order:
            self._work_to_order = 0  # from now on all are ascending
            return False
        self._work_to_order -= work
        self.charge(work)
        return True

    def is_hopeless(self, number: int) -> bool:
        """True if the requests from that number on are too many for the devices that are left to them.

        Each is looked at alone, and requests that could take the same devices are counted together.
        """
        if self.terms.is_exhaustive or len(self.requests) - number < 2:
            return False
        self.steps += 1
        groups: list[_Contenders] = []
        for alternatives in self.requests[number:]:
            every = [_Contenders.of(candidates) for candidates in alternatives]
            if self._efforts is not None and self.terms.is_cancelled():  # there is much to look at
                raise Cancelled(f"cancelled after {self.steps} steps")
            self._charge_each(every)
            if self.steps > self.terms.budget_steps:
                return False  # not known: the search ends before its next step
            # The bound of one request: the devices left to it, at best, are fewer than it needs.
            possible = [own for own in every if own.can_have_all()]
            if not possible:
                return True
            # The joint bound: requests whose devices overlap are one group, and so are groups that it connects.
            _Contenders.of_one_request(possible).join(groups)
        together = [(group, group.rules()) for group in groups]
        if self._efforts is not None and not self._may_do(sum(self._efforts.joint_work_of(*one) for one in together)):
            return False
        return any(group.lacks_room(rules) for group, rules in together)

    def _charge_each(self, contenders: Iterable["_Contenders"]) -> None:
        if self._efforts is not None:
            for contender in contenders:
                (candidates,) = contender.alternatives
                self.charge(WORK_OF_A_BOUND + self._efforts.work_of(candidates, candidates.mask, contender.domain))

    def picks(self) -> tuple[Pick, ...]:
        """The devices chosen in this branch."""
        return tuple([frame.pick() for frame in self._frames if isinstance(frame, SlotFrame)])

    def picks_of(self, claim: int) -> int:
        """How many devices the claim has in this branch."""
        number = 0
        for frame in reversed(self._frames):
            if frame.claim != claim:
                break  # requests are in the order of claims
            number += isinstance(frame, SlotFrame)
        return number

    def request(self, number: int) -> "RequestFrame | None":
        """The decision about the request of that number, None after the last."""
        return RequestFrame(self, number) if number < len(self.requests) else None


@final
class _Contenders:
    """Requests that could take the same devices. need: how many devices all of them need at least."""

    __slots__ = ("alternatives", "domain", "need", "requests")

    def __init__(self, domain: Mask, need: int, alternatives: list[Candidates]) -> None:
        self.domain = domain
        self.need = need
        self.alternatives = alternatives
        self.requests = 1

    @staticmethod
    def of(candidates: Candidates) -> "_Contenders":
        """One alternative by itself, with what is left to it after the picks made."""
        domain, slot = candidates.mask, DeviceSlot(candidates, 0)
        for rule in candidates.rules:
            domain = rule.narrow(slot, domain)
        return _Contenders(domain, candidates.need, [candidates])

    @staticmethod
    def of_one_request(alternatives: Sequence["_Contenders"]) -> "_Contenders":
        """The alternatives of a request, of which one is needed."""
        if len(alternatives) == 1:
            return alternatives[0]
        domain = 0
        for alternative in alternatives:
            domain |= alternative.domain
        need = min([one.need for one in alternatives])
        return _Contenders(domain, need, [one.alternatives[0] for one in alternatives])

    def join(self, groups: "list[_Contenders]") -> None:
        """Join those groups that these requests contend with, which become one, or begin a new one."""
        first: _Contenders | None = None
        for group in [group for group in groups if group.domain & self.domain]:
            if first is None:
                first = group
                first._take_in(self)  # noqa: SLF001 - of its own class
            else:
                groups.remove(group)
                first._take_in(group)  # noqa: SLF001
        if first is None:
            groups.append(self)

    def _take_in(self, other: "_Contenders") -> None:
        self.domain |= other.domain
        self.need += other.need
        self.alternatives += other.alternatives
        self.requests += other.requests

    def can_have_all(self) -> bool:
        """False if one alternative cannot get its devices even if it is the next to choose."""
        (candidates,) = self.alternatives
        if candidates.forced is not None:
            return all(self.domain >> device & 1 for device in candidates.forced)
        if self.domain.bit_count() < self.need:
            return False
        slot = DeviceSlot(candidates, 0)
        for rule in candidates.rules:  # noqa: SIM110 - all(...) costs more, and this is asked of each request again
            if rule.room(slot, self.domain) < self.need:
                return False
        return True

    def rules(self) -> tuple[Rule, ...]:
        return _distinct(rule for candidates in self.alternatives for rule in candidates.rules)

    def lacks_room(self, rules: Iterable[Rule]) -> bool:
        return any(
            rule.joint_room(self.alternatives, self.requests, self.domain, self.need) < self.need for rule in rules
        )


class RequestFrame:
    """The choice of an alternative for one request."""

    __slots__ = ("_alternative", "_has_failed", "_is_passed_over", "_key", "_mark", "_number", "_search")

    def __init__(self, search: Search, number: int) -> None:
        self._search = search
        self._number = number
        self._alternative = -1
        self._mark = search.trail.mark()
        self._key = self._present() if search.has_failed else None
        self._is_passed_over = False
        self._has_failed = False

    @property
    def claim(self) -> int:
        """The claim that the request is of."""
        return self._search.requests[self._number][0].claim

    @property
    def exceeds(self) -> bool:
        """True if each alternative was given up since its claim would have too many devices."""
        return not self._has_failed

    def _present(self) -> Hashable:
        memory = self._search.memory
        self._search.charge(memory.work_of_key[self._number])
        return memory.key(self._number, self._search.picks_of(self.claim))

    def pass_over(self) -> None:
        """Note that the present alternative leaves too few of its claim's devices to later requests."""
        self._is_passed_over = True

    def advance(self) -> bool:
        """Turn to the next alternative, unless it is known to fail."""
        search = self._search
        search.trail.rewind(self._mark)
        self._has_failed |= self._alternative >= 0 and not self._is_passed_over
        self._is_passed_over = False
        if self._alternative < 0 and self._key is not None:
            # Memory: other picks before it, but all that the rest of the search reads of them is the same.
            if search.memory.is_dead(self._key):
                self._has_failed = True
                return False
            if search.is_hopeless(self._number):
                self._has_failed = True
                search.memory.bury(self._number, self._key)
                return False
        self._alternative += 1
        search.steps += 1
        alternatives = search.requests[self._number]
        while self._alternative < len(alternatives):
            if not search.may_exceed or self._stays_within_limit(alternatives[self._alternative]):
                return True
            self._alternative += 1
        if search.terms.is_exhaustive or not self._number:
            return False  # nobody comes to the first request again
        search.memory.bury(self._number, self._key if self._key is not None else self._present())
        return False

    def _stays_within_limit(self, candidates: Candidates) -> bool:
        picks = self._search.picks_of(candidates.claim)
        return candidates.is_void or picks + candidates.need <= self._search.terms.most_picks

    def child(self) -> _Level | None:
        """The first slot of the alternative, or the next request if it needs no device."""
        candidates = self._search.requests[self._number][self._alternative]
        if candidates.need == 0:
            return self._search.request(self._number + 1)
        return SlotFrame(self._search, self._number, DeviceSlot(candidates, 0), candidates.mask)


class SlotFrame:
    """The choice of a device for one slot."""

    __slots__ = ("_device", "_domain", "_mark", "_number", "_preferred", "_search", "_slot")

    def __init__(self, search: Search, number: int, slot: DeviceSlot, domain: Mask) -> None:
        self._search = search
        self._number = number
        self._slot = slot
        self._mark = search.trail.mark()
        self._device = -1
        self._domain = self._narrowed(domain)
        self._preferred = None if search.terms.order is None else self._in_order(search.terms.order)

    @property
    def claim(self) -> int:
        """The claim that the device is for."""
        return self._slot.candidates.claim

    def pick(self) -> Pick:
        """The device that is chosen now."""
        return Pick(self._slot.candidates, self._device)

    def advance(self) -> bool:
        """Turn to the next device that every rule accepts."""
        search, slot = self._search, self._slot
        search.trail.rewind(self._mark)
        if self._device >= 0:
            self._skip_twins()
        while self._domain:
            low = self._next()
            self._domain ^= low
            self._device = low.bit_length() - 1
            search.steps += 1
            if slot.candidates.poison & low:
                raise Poisoned(slot.candidates, self._device)
            if self._take():
                return True
            search.trail.rewind(self._mark)
            self._skip_twins()
        return False

    def child(self) -> _Level | None:
        """The next slot of the same request, from the devices behind this one, or the next request."""
        slot = self._slot
        if slot.position + 1 == slot.candidates.need:
            return self._search.request(self._number + 1)
        following = DeviceSlot(slot.candidates, slot.position + 1)
        behind = self._domain if slot.candidates.forced is None else slot.candidates.mask
        return SlotFrame(self._search, self._number, following, behind)

    def _take(self) -> bool:
        slot, device, trail = self._slot, self._device, self._search.trail
        for rule in slot.candidates.rules:  # noqa: SIM110 - all(...) costs more than most rules
            if not rule.take(slot, device, trail):
                return False
        return True

    def _next(self) -> Mask:
        """The bit of the device to try next."""
        if self._preferred is None:
            return self._domain & -self._domain
        return next(1 << device for device in self._preferred if self._domain >> device & 1)

    def _in_order(self, order: Order) -> Iterator[int] | None:
        """The devices of the domain in that order; None if there is nothing to choose."""
        if not self._domain or self._slot.is_forced or not self._search.may_order(self._domain.bit_count()):
            return None
        return chain(order(self._slot, self._domain, self._search.picks()), bits(self._domain))

    def _narrowed(self, domain: Mask) -> Mask:
        slot, search = self._slot, self._search
        candidates = slot.candidates
        if candidates.forced is not None:
            domain &= 1 << candidates.forced[slot.position]
        is_exhaustive, whole = search.terms.is_exhaustive, domain
        for rule in candidates.rules:
            if rule.hides or not is_exhaustive:
                domain = rule.narrow(slot, domain)
        if is_exhaustive:
            return domain
        search.charge_slot(candidates, whole, domain)
        need = 1 if candidates.forced is not None else candidates.need - slot.position
        if domain.bit_count() < need:
            return 0
        for rule in candidates.rules:
            if rule.room(slot, domain) < need:
                return 0
        return domain

    def _skip_twins(self) -> None:
        if self._search.terms.is_exhaustive:
            return
        # Twins: where this device has failed, those that no rule tells from it now would fail in the same way.
        self._domain &= ~self._search.memory.twins(self._device)


class _Efforts:
    """How much work the rules have, by rule and by alternative."""

    def __init__(self, requests: Sequence[Sequence[Candidates]]) -> None:
        every = [candidates for alternatives in requests for candidates in alternatives]
        # A count that nobody has may be any number: no more devices are picked than there are.
        picks = sum(max(min(c.need, c.mask.bit_count()) for c in alternatives) for alternatives in requests)
        rules = _distinct(rule for candidates in every for rule in candidates.rules)
        # By identity: the requests of the search keep their rules and candidates as long as it lasts.
        self.of_rule = {id(rule): rule.effort(picks) for rule in rules}
        self._of_alternative = {id(c): _sum([self.of_rule[id(rule)] for rule in c.rules]) for c in every}

    def work_of(self, candidates: Candidates, domain: Mask, narrowed: Mask) -> int:
        """The work for a slot with that domain, narrowed to these devices."""
        effort = self._of_alternative[id(candidates)]
        return effort.whole + effort.narrow * domain.bit_count() + effort.room * narrowed.bit_count()

    def joint_work_of(self, group: "_Contenders", rules: Sequence[Rule]) -> int:
        """The work of these rules to find out what several requests can have together."""
        efforts = [self.of_rule[id(rule)] for rule in rules]
        each = sum([WORK_OF_A_BOUND + self._of_alternative[id(one)].whole for one in group.alternatives])
        joint = sum([effort.joint for effort in efforts]) * len(group.alternatives)
        return each + joint + sum([effort.room for effort in efforts]) * group.domain.bit_count()


class Memory:
    """What failures have shown: which devices are twins, and which fingerprints have no answer.

    kept: how many devices, values and amounts are in the fingerprints. Cost of making it: `work_to_remember`.
    """

    def __init__(self, requests: Sequence[Sequence[Candidates]], efforts: "_Efforts") -> None:
        every = [candidates for alternatives in requests for candidates in alternatives]
        self._rules = _distinct(rule for candidates in every for rule in candidates.rules)
        self._classes = _classes(every, self._rules)
        self._class_of = {device: members for members in self._classes for device in bits(members)}
        self._dead: dict[Hashable, int] = {}
        self.kept = 0
        self._ahead = self._remaining(requests)
        least_work = WORK_OF_A_KEY + max(self._class_of, default=0) // DEVICES_OF_A_UNIT
        self.work_of_key = [
            least_work + len(classes.several) + sum(efforts.of_rule[id(rule)].fingerprint for rule in rules)
            for rules, classes in self._ahead
        ]

    def twins(self, device: int) -> Mask:
        """The devices that are interchangeable with this one now, itself included."""
        touched = 0
        for rule in self._rules:
            touched |= rule.touched()
        return 1 << device if touched >> device & 1 else self._class_of[device] & ~touched

    def key(self, number: int, of_claim: int) -> Hashable:
        """The fingerprint of the picks made, as far as they matter to the requests from that number on.

        of_claim: how many of them are of the claim of that request.
        """
        rules, classes = self._ahead[number]
        return (number, of_claim, *(rule.fingerprint(classes) for rule in rules))

    def bury(self, number: int, key: Hashable) -> None:
        """Remember that the requests from that number on have no answer under this key."""
        # Forgetting costs time, never an answer: what is not remembered is searched again.
        size = self.work_of_key[number]
        self.kept += size - self._dead.get(key, 0)
        self._dead[key] = size
        while self.kept > MOST_KEPT:
            self.kept -= self._dead.pop(next(iter(self._dead)))

    def is_dead(self, key: Hashable) -> bool:
        """True if the search has failed under this key before."""
        return key in self._dead

    def _remaining(self, requests: Sequence[Sequence[Candidates]]) -> Sequence[tuple[tuple[Rule, ...], Classes]]:
        """For each request the rules and the classes of devices that matter to it and to those after it."""
        remaining: list[tuple[tuple[Rule, ...], Classes]] = []
        rules: dict[int, Rule] = {}
        reachable = 0
        classes = Classes((), 0)
        for alternatives in reversed(requests):
            before, rules_before = reachable, len(rules)
            for candidates in alternatives:
                reachable |= candidates.mask
                rules |= {id(rule): rule for rule in candidates.rules}
            if reachable != before:
                classes = self._among(reachable)
            of_all = remaining[-1][0] if remaining and len(rules) == rules_before else tuple(rules.values())
            remaining.append((of_all, classes))
        remaining.reverse()
        return remaining

    def _among(self, reachable: Mask) -> Classes:
        classes = [members for members in self._classes if members & reachable]
        several = tuple([members for members in classes if members & (members - 1)])
        return Classes(several, sum(classes) - sum(several))


def work_to_remember(requests: Sequence[Sequence[Candidates]]) -> int:
    """The work of `Memory`: each device is seen by each rule and in each set of candidates, and is of classes."""
    every = [candidates for alternatives in requests for candidates in alternatives]
    devices = _candidates_of_any(every).bit_count()
    masks = len({candidates.mask for candidates in every})
    rules = len(_distinct(rule for candidates in every for rule in candidates.rules))
    return devices * (WORK_OF_A_COMPARISON * rules + (masks + len(requests)) // 4)


def _candidates_of(requests: Iterable[Sequence[Candidates]]) -> int:
    return sum([candidates.mask.bit_count() for alternatives in requests for candidates in alternatives])


def _distinct(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    return tuple({id(rule): rule for rule in rules}.values())


def _sum(efforts: Sequence[Effort]) -> Effort:
    return Effort(
        sum(effort.whole for effort in efforts),
        sum(effort.narrow for effort in efforts),
        sum(effort.room for effort in efforts),
        sum(effort.joint for effort in efforts),
        sum(effort.fingerprint for effort in efforts),
    )


def _subsets(requests: Sequence[Sequence[Candidates]]) -> Iterator[Sequence[Sequence[Candidates]]]:
    """Some of the requests, but not all: each alone, those of each claim, and each two."""
    if len(requests) > 1:
        yield from ([one] for one in requests)
    claims = {alternatives[0].claim for alternatives in requests}
    if len(claims) > 1:
        yield from ([one for one in requests if one[0].claim == claim] for claim in sorted(claims))
    if len(requests) > 2:
        yield from (list(two) for two in combinations(requests, 2))


def _classes(every: Sequence[Candidates], rules: Sequence[Rule]) -> tuple[Mask, ...]:
    candidates_of_any = _candidates_of_any(every)
    classes: dict[Hashable, Mask] = {}
    seen = _transposed(list({mask for c in every for mask in (c.mask, c.poison)}), candidates_of_any.bit_length())
    for device in bits(candidates_of_any):
        key = (seen[device], tuple([rule.alike(device) for rule in rules]))
        classes[key] = classes.get(key, 0) | 1 << device
    return tuple(classes.values())


def _candidates_of_any(every: Iterable[Candidates]) -> Mask:
    union = 0
    for candidates in every:
        union |= candidates.mask
    return union


def _transposed(masks: Sequence[Mask], devices: int) -> Sequence[str]:
    """For each device a digit by mask, 1 where it is a member. Cost: a character of each, without a loop in Python."""
    rows = [format(mask, f"0{devices}b") for mask in masks]
    return list(map("".join, zip(*rows, strict=True)))[::-1]
