"""The user's constraints as rules: all devices with one value of an attribute, or all with different ones.

Values compare by type and as written; up to 1.37 also the versions `1.0.0+a` and `1.0.0+b`, which
selectors take as equal. Lists compare as in `features.list_type_attributes`.
Source: KEP-4381, fields matchAttribute and distinctAttribute.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import cel
from allocator.bits import Mask, bits, union
from allocator.cluster.pools import NodeView
from allocator.features.contract import NodeAttempt
from allocator.features.list_type_attributes import Incomparable, Token, is_list, tokens
from allocator.gates import CONSUMABLE_CAPACITY, LIST_TYPE_ATTRIBUTES, Features
from allocator.memo import Topic
from allocator.model import Alternative, Attribute, Claim, Constraint, Device, JointConstraint
from allocator.outcome import JOINED, Budget, InvalidClaim
from allocator.search.rules import UNBOUNDED, Candidates, Classes, DeviceSlot, Effort, Rule, Trail
from cel.cache import LruCache


def names_of(request: str) -> tuple[str, str]:
    """By which a constraint names a request: its name, and of a subrequest that of the request that it belongs to."""
    return request, request.partition("/")[0]


def covers(constraint: Constraint, alternative: Alternative) -> bool:
    """True if the constraint applies to the request: no names mean all, a request's name means its subrequests."""
    return covers_name(constraint, alternative.name)


def covers_name(constraint: Constraint, request: str) -> bool:
    """As `covers`, by the name that a result has of it."""
    own, whole = names_of(request)
    return not constraint.requests or own in constraint.requests or whole in constraint.requests


def lookup(device: Device, name: str) -> Attribute | None:
    """The attribute of that qualified name; the short name counts if the domain is the driver's.

    The name as written in full takes precedence over the short one. Source: KEP-4381, matchAttribute.
    """
    if (exact := device.attributes.get(name)) is not None:
        return exact
    domain, _, identifier = name.partition("/")
    return device.attributes.get(identifier) if domain == device.driver else None


def published(device: Device, name: str, features: Features) -> Attribute | None:
    """The attribute as a constraint finds it: since 1.38 a name without domain is nobody's."""
    return lookup(device, name) if "/" in name or features.release.finds_short_names else None


@dataclass(frozen=True, slots=True, eq=False)
class AttributeColumn:
    """One attribute over the devices of a view."""

    groups: Mapping[Token, Mask]
    """The devices of each value."""
    numbered: Mapping[int, Mask]
    """The same by the value's number, which all columns of the view agree on."""
    values: Mapping[int, Mask]
    """The numbers of each device as a mask; missing where it has none."""
    present: Mask
    """The devices with a value."""
    empty: Mask
    """Those of them with a derived list of none."""
    lists: Mask
    """Those with a list that compares to nothing."""
    failures: Mapping[int, str]
    """Devices on which a derived attribute fails, or whose value cannot be compared."""
    failing: Mask
    """The same."""


Derive = Callable[[str, Device], Attribute | str]
"""How derived attributes are worked out: an expression and a device to the attribute, or to an error's text."""


MOST_COLUMNS: Final = 256
"""Columns of one attribute name that a view keeps: one for each derived attribute and set of candidates."""


@dataclass(frozen=True, slots=True)
class _ColumnSet:
    """The columns of one attribute name on one view, by what they are made of; their values share one numbering."""

    numbers: dict[Token, int] = field(default_factory=dict)
    made: dict[Hashable, AttributeColumn] = field(default_factory=dict)


_COLUMN_SETS: Final[Topic[_ColumnSet]] = Topic("columns")


def _column_set(view: NodeView, name: str) -> _ColumnSet:
    key = (_COLUMN_SETS, name)
    known = view.memo.remember(key, _ColumnSet)
    if len(known.made) <= MOST_COLUMNS:
        return known
    view.memo.forget(key)
    return view.memo.remember(key, _ColumnSet)


class AttributeColumns:
    """The columns of one attribute name, published or derived, each made once for a view."""

    def __init__(self, view: NodeView, name: str, derive: Derive, features: Features) -> None:
        self._view = view
        self._name = name
        self._derive = derive
        self._features = features
        self._set = _column_set(view, name)
        self._published: AttributeColumn | None = None

    def number(self, value: Token) -> int:
        """Of the value, in all columns of the attribute."""
        return self._set.numbers.setdefault(value, len(self._set.numbers))

    def of(self, candidates: Candidates) -> AttributeColumn:
        """The column that an alternative compares: its own derived attribute, or the published one."""
        # Asked for each slot: most alternatives derive nothing, and compare the same column.
        derived = candidates.alternative.derived_attributes
        if not derived and self._published is not None:
            return self._published
        expression = dict(derived).get(self._name)
        devices = self._view.all if expression is None else candidates.mask
        column = self._set.made.get((expression, devices))
        if column is None:
            column = self._set.made[expression, devices] = self._make(expression, devices)
        if expression is None:
            self._published = column
        return column

    def _make(self, expression: str | None, devices: Mask) -> AttributeColumn:
        numbers, has_lists = self._set.numbers, self._features.has(LIST_TYPE_ATTRIBUTES)
        compares_as_written = self._features.release.compares_as_written
        groups: dict[Token, Mask] = {}
        values: dict[int, Mask] = {}
        failures: dict[int, str] = {}
        lists = 0
        for position in bits(devices):
            attribute = self._found(expression, position)
            if isinstance(attribute, str):
                failures[position] = attribute
            elif attribute is not None:
                own, is_a_list = attribute
                if own or not compares_as_written:
                    values[position] = sum(1 << numbers.setdefault(token, len(numbers)) for token in own)
                    lists |= (is_a_list and not has_lists) << position
                for token in own:
                    groups[token] = groups.get(token, 0) | 1 << position
        present = sum(1 << position for position in values)
        empty = sum(1 << position for position, own_values in values.items() if not own_values)
        failing = sum(1 << position for position in failures)
        numbered = {numbers[token]: mask for token, mask in groups.items()}
        return _shared(AttributeColumn(groups, numbered, values, present, empty, lists, failures, failing))

    def _found(self, expression: str | None, position: int) -> tuple[Sequence[Token], bool] | str | None:
        """What the device is compared by and whether it is a list; why it cannot be; or None: it has no such value."""
        device = self._view.devices[position]
        attribute: Attribute | str | None
        if expression is None:
            attribute = published(device, self._name, self._features)
        else:
            attribute = self._derive(expression, device)
        if attribute is None or isinstance(attribute, str):
            return attribute
        try:
            return tokens(attribute, position, self._features, is_derived=expression is not None), is_list(attribute)
        except Incomparable as problem:
            return str(problem)


MOST_SHARED: Final = 1 << 12
"""Different columns that are shared by the views of nodes with the same devices: most of a fleet are alike."""

_SHARED: Final[LruCache[Hashable, AttributeColumn]] = LruCache(MOST_SHARED, MOST_SHARED)


def _shared(column: AttributeColumn) -> AttributeColumn:
    """An equal one that another view has already, if there is one."""
    parts = (column.groups, column.numbered, column.values, column.failures)  # which all else follows from but `lists`
    return _SHARED.get((column.lists, *[tuple(part.items()) for part in parts]), 1, lambda: column)


@dataclass(slots=True, eq=False)
class AttributeRule(Rule):
    """A constraint over the values of an attribute."""

    view: NodeView
    claim: str
    position: int
    """claim, position: where the constraint stands, for messages."""
    attribute: str
    columns: AttributeColumns
    is_fatal: bool
    """A violation under `All` ends the attempt."""
    budget: Budget
    covered: Sequence[Candidates] = field(default=(), init=False)
    """The alternatives that it covers."""
    affected: Sequence[Sequence[Candidates]] = field(default=(), init=False)
    """The requests that it covers whichever alternative is chosen, with their alternatives."""
    compared: Sequence[AttributeColumn] = field(default=(), init=False)
    """The columns of those that are covered, each once. `cover` sets them before the first pick."""

    def cover(self, requests: Sequence[Sequence[Candidates]], covers: Callable[[Candidates], bool]) -> None:
        """Learn which of the claim's alternatives the constraint covers."""
        self.covered = tuple([c for alternatives in requests for c in alternatives if covers(c)])
        self.affected = tuple([alternatives for alternatives in requests if all(map(covers, alternatives))])
        self.compared = tuple({id(column): column for column in map(self.columns.of, self.covered)}.values())

    def cover_nothing(self) -> None:
        """Let go of the alternatives, each of which knows its rules."""
        self.covered = self.affected = self.compared = ()

    def effort(self, picks: int) -> Effort:
        """Each value of the attribute is read, once for all devices that have it."""
        return Effort(1 + max([len(column.numbered) for column in self.compared], default=0))

    def alike(self, device: int) -> Hashable:
        """Devices with the same values, published and derived, are the same."""
        return tuple([(column.values.get(device), device in column.failures) for column in self.compared])

    @abstractmethod
    def count(self, values: Collection[Token]) -> None:
        """Take what other devices have for picked."""

    def _numbers(self, values: Collection[Token]) -> Mask:
        return union(1 << self.columns.number(value) for value in values)

    @abstractmethod
    def best(self) -> tuple[int, int]:
        """(how many devices can satisfy the constraint at most, how many are needed), before any pick."""

    def depends_on_order(self, candidates: Candidates) -> bool:
        """True if a set of devices may be refused in one order and not in another."""
        return False

    def refuse(self, slot: DeviceSlot, device: int) -> bool:
        """False, to refuse the device; under `All` an error if a violation ends the attempt."""
        if not (slot.is_forced and self.is_fatal):
            return False
        raise InvalidClaim(
            f"claim {self.claim}, request {slot.candidates.alternative.name}: cannot add device "
            f"{self.view.devices[device].id}, since constraint #{self.position} ({self.attribute}) would be violated"
        )

    def values(self, slot: DeviceSlot, device: int) -> Mask:
        """The device's values for the slot's request, 0 for none. Raises InvalidClaim if deriving them fails."""
        column = self.columns.of(slot.candidates)
        if device in column.failures:
            alternative = slot.candidates.alternative
            derived = "derived " if self.attribute in dict(alternative.derived_attributes) else ""
            raise InvalidClaim(
                f"claim {self.claim}, request {alternative.name}: {derived}attribute {self.attribute} "
                f"on device {self.view.devices[device].id}: {column.failures[device]}"
            )
        return column.values.get(device, 0)


@dataclass(slots=True, eq=False)
class MatchAttribute(AttributeRule):
    """All devices have the attribute, with one and the same value."""

    _common: Mask | None = field(default=None, init=False)
    _viable: Mask = field(default=0, init=False)

    def cover(self, requests: Sequence[Sequence[Candidates]], covers: Callable[[Candidates], bool]) -> None:
        """Learn also which values could satisfy every request that the constraint covers."""
        AttributeRule.cover(self, requests, covers)
        looked_at = self._different_values()
        # Each value is looked at for each alternative, now and to find out why there is no answer.
        self.budget.charge(2 * len(looked_at) * len(self.covered))
        self._viable = sum(1 << value for value in looked_at if self._is_viable(value))

    def count(self, values: Collection[Token]) -> None:
        """The values that are allowed, of which picks have one in common; none for all."""
        if values:
            self._common = self._numbers(values)

    def narrow(self, slot: DeviceSlot, domain: Mask) -> Mask:
        """The devices with a value that all picks have."""
        column = self.columns.of(slot.candidates)
        if self._common is None:
            return domain & (column.present | column.failing)
        return domain & ((_union(column, self._common) & ~column.lists) | column.failing)

    def take(self, slot: DeviceSlot, device: int, trail: Trail) -> bool:
        """The first pick sets the values; each further pick keeps those that it has too."""
        common, column = self.values(slot, device), self.columns.of(slot.candidates)
        is_common = bool(column.present >> device & 1)
        if self._common is not None:
            common = 0 if column.lists >> device & 1 else self._common & common
            is_common = bool(common)
        if not is_common:
            return self.refuse(slot, device)
        trail.push(self._restore, self._common)
        self._common = common
        return True

    def room(self, slot: DeviceSlot, domain: Mask) -> int:
        """As many as share a value that every request under the constraint could still use."""
        column = self.columns.of(slot.candidates)
        possible = self._viable if self._common is None else self._common
        alone = int(self._common is None and bool(column.empty & domain))  # which has nothing in common with any
        most = max([_count(column, value, domain) for value in bits(possible)], default=0)
        return max(most, alone) + (column.failing & domain).bit_count()

    def fingerprint(self, classes: Classes) -> Hashable:
        """The values that all picks have."""
        return self._common

    def best(self) -> tuple[int, int]:
        """(how many devices one value can give at most, how many are needed), before any pick."""
        needed = sum(min(c.need for c in alternatives) for alternatives in self.affected)
        alone = int(any(self.columns.of(c).empty & c.mask for alternatives in self.affected for c in alternatives))
        possible = self._different_values() if self._common is None else bits(self._common)
        most = max([min(self._offers(value), needed) for value in possible], default=0)
        return max(most, min(alone, needed)), needed

    def _different_values(self) -> Collection[int]:
        """The values; if there are many, one of those that the same devices have."""
        columns = self.compared
        every: Collection[int] = columns[0].numbered if len(columns) == 1 else {v for c in columns for v in c.numbered}
        if len(every) <= len(self.view.devices):
            return every
        return {tuple([column.numbered.get(value, 0) for column in columns]): value for value in every}.values()

    def _is_viable(self, value: int) -> bool:
        return all(
            any(_count(self.columns.of(c), value, c.mask) >= c.need for c in alternatives)
            for alternatives in self.affected
        )

    def _offers(self, value: int) -> int:
        return sum(
            max(min(c.need, _count(self.columns.of(c), value, c.mask)) for c in alternatives)
            for alternatives in self.affected
        )

    def _restore(self, old: Mask | None) -> None:
        self._common = old


@dataclass(slots=True, eq=False)
class DistinctAttribute(AttributeRule):
    """All devices have the attribute, no two with a value in common; values of different types are distinct."""

    _used: Mask = field(default=0, init=False)

    def count(self, values: Collection[Token]) -> None:
        """The values that are used."""
        self._used = self._numbers(values)

    def depends_on_order(self, candidates: Candidates) -> bool:
        """A list that compares to nothing is taken as the first device, and never later."""
        return bool(self.columns.of(candidates).lists)

    def narrow(self, slot: DeviceSlot, domain: Mask) -> Mask:
        """The devices whose values have not been picked; a list that compares to nothing can only be the first."""
        column = self.columns.of(slot.candidates)
        domain &= column.present | column.failing
        if self._used:
            domain &= ~(_union(column, self._used) | column.lists)
        return domain

    def take(self, slot: DeviceSlot, device: int, trail: Trail) -> bool:
        """Every pick needs values of its own."""
        values = self.values(slot, device)
        is_late_list = bool(self._used) and self.columns.of(slot.candidates).lists >> device & 1
        is_there = self.columns.of(slot.candidates).present >> device & 1
        if not is_there or self._used & values or is_late_list:
            return self.refuse(slot, device)
        trail.push(self._restore, self._used)
        self._used |= values
        return True

    def room(self, slot: DeviceSlot, domain: Mask) -> int:
        """One device for each value at most."""
        column = self.columns.of(slot.candidates)
        free = (column.failing | column.empty) & domain
        return sum(1 for mask in column.groups.values() if mask & domain) + free.bit_count()

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask, enough: int) -> int:
        """One device for each value at most, where the constraint covers all of them."""
        covered = {id(candidates) for candidates in self.covered}
        if not all(id(one) in covered for one in alternatives):
            return UNBOUNDED
        columns = {id(column): column for column in map(self.columns.of, alternatives)}.values()
        values = {value for column in columns for value, mask in column.numbered.items() if mask & domain}
        free = [((column.failing | column.empty) & domain).bit_count() for column in columns]
        return len(values) + sum(free)

    def fingerprint(self, classes: Classes) -> Hashable:
        """The values picked."""
        return self._used

    def best(self) -> tuple[int, int]:
        """(how many different values the candidates have, how many are needed), before any pick."""
        values: set[Token] = set()
        empty = 0
        for alternatives in self.affected:
            for candidates in alternatives:
                column = self.columns.of(candidates)
                numbered = zip(column.groups.items(), column.numbered, strict=True)
                values |= {
                    token
                    for (token, mask), number in numbered
                    if mask & candidates.mask and not self._used >> number & 1
                }
                empty += (column.empty & candidates.mask).bit_count()
        needed = sum(min(c.need for c in alternatives) for alternatives in self.affected)
        return min(needed, len(values) + empty), needed

    def _restore(self, old: Mask) -> None:
        self._used = old


def rules_of(
    constraints: Sequence[Constraint], claim: str, attempt: NodeAttempt
) -> tuple[tuple[Constraint, AttributeRule], ...]:
    """The rules of a claim's constraints. Raises InvalidClaim for one of a type that is not known."""
    view, features = attempt.view, attempt.features
    # Differs from kube-scheduler, where a violated constraint under `All` ends the attempt on every node.
    is_fatal = features.is_strict
    rules: list[tuple[Constraint, AttributeRule]] = []
    for position, constraint in enumerate(constraints):
        name = constraint.match_attribute or constraint.distinct_attribute
        where = f"claim {claim}, constraint #{position}"
        if not name:
            raise InvalidClaim(f"{where}: neither matchAttribute nor distinctAttribute")
        if not constraint.match_attribute and not features.knows_capacity:
            raise InvalidClaim(f"{where}: distinctAttribute is set, but {CONSUMABLE_CAPACITY} is off")
        # Not a nested function: compiled, it refers to itself, and would keep the attempt for the garbage collector.
        columns = AttributeColumns(view, name, partial(_derive, attempt), features)
        rule_type = MatchAttribute if constraint.match_attribute else DistinctAttribute
        rules.append((constraint, rule_type(view, claim, position, name, columns, is_fatal, attempt.budget)))
    return tuple(rules)


def joint_rules_of(
    claims: Sequence[Claim], attempt: NodeAttempt
) -> Mapping[JointConstraint, tuple[Constraint, AttributeRule]]:
    """The rules of what holds over several claims, each once. Raises InvalidClaim."""
    rules: dict[JointConstraint, tuple[Constraint, AttributeRule]] = {}
    for joint in dict.fromkeys(one for claim in claims for one in claim.joint):
        names = JOINED.join(str(claim) for claim in claims if joint in claim.joint)
        ((constraint, rule),) = rules_of((joint.constraint,), names, attempt)
        rule.count(joint.values)
        rules[joint] = constraint, rule
    return rules


def equal_values(view: NodeView, name: str, features: Features) -> Hashable:
    """By device, its published values of the attribute, each as a number that devices with an equal one share."""
    numbers = dict[Token, int]()
    return _values_by_device(view, name, features, lambda token: numbers.setdefault(token, len(numbers)))


def own_values(view: NodeView, name: str, features: Features) -> Hashable:
    """By device, its published values of the attribute."""
    return _values_by_device(view, name, features, lambda token: token)


def _values_by_device(view: NodeView, name: str, features: Features, read: Callable[[Token], Hashable]) -> Hashable:
    values: list[Hashable] = []
    for position, device in enumerate(view.devices):
        attribute = published(device, name, features)
        if attribute is None:
            values.append(None)
            continue
        try:
            own = tokens(attribute, position, features)
        except Incomparable as problem:
            values.append(str(problem))
        else:
            values.append((is_list(attribute), tuple([read(token) for token in own])))
    return tuple(values)


def _derive(attempt: NodeAttempt, expression: str, device: Device) -> Attribute | str:
    attempt.look_at_time()
    try:
        program = cel.compile_value(expression, attempt.features.environment)
    except cel.CompileError as error:
        return f"CEL compile error: {error}"
    value, work = program.derive(device, attempt.is_cancelled)
    attempt.budget.charge(work)
    if isinstance(value, cel.EvalError):
        return f"CEL runtime error: {value}"
    assert isinstance(value, tuple)
    return value


def _union(column: AttributeColumn, values: Mask) -> Mask:
    """The devices with one of the values."""
    union = 0
    for value in bits(values):
        union |= column.numbered.get(value, 0)
    return union


def _count(column: AttributeColumn, value: int, domain: Mask) -> int:
    return (column.numbered.get(value, 0) & domain).bit_count()
