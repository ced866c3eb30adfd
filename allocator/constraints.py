"""The user's constraints as rules: all devices with one value of an attribute, or all with different ones.

Values compare by kind and as written, so the versions `1.0.0+a` and `1.0.0+b` differ here although
selectors take them as equal. What a list compares as is for `features.list_type_attributes` to say.
Source: KEP-4381, fields matchAttribute and distinctAttribute.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import cel
from allocator.feature import Attempt
from allocator.features.list_type_attributes import Token, is_list, tokens
from allocator.gates import LIST_TYPE_ATTRIBUTES
from allocator.model import Alternative, Attribute, Constraint, Device
from allocator.node_view import NodeView
from allocator.outcome import InvalidClaim
from allocator.rules import UNBOUNDED, Candidates, Mask, Slot, Trail, bits
from allocator.search import Cancelled


def covers(constraint: Constraint, alternative: Alternative) -> bool:
    """True where the constraint applies to the request: no names mean all, a request's name means its subrequests."""
    names = constraint.requests
    return not names or alternative.name in names or alternative.name.partition("/")[0] in names


def lookup(device: Device, name: str) -> Attribute | None:
    """The attribute of that qualified name; the short name counts where the domain is the driver's.

    The name as written in full goes before the short one. Source: KEP-4381, matchAttribute.
    """
    if (exact := device.attributes.get(name)) is not None:
        return exact
    domain, _, identifier = name.partition("/")
    return device.attributes.get(identifier) if domain == device.driver else None


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One attribute over the devices of a view.

    tokens: of each device; missing where it has none. groups: the devices of each token. present: the devices with a
    token. lists: those with a list that compares to nothing. failures: devices on which a derived attribute fails.
    """

    tokens: Mapping[int, frozenset[Token]]
    groups: Mapping[Token, Mask]
    present: Mask
    lists: Mask
    failures: Mapping[int, str]

    @property
    def failing(self) -> Mask:
        """The devices on which the derived attribute fails."""
        return sum(1 << device for device in self.failures)


Derive = Callable[[str, Device], Attribute | str]
"""How derived attributes are worked out: an expression and a device to the attribute, or to an error's text."""


class Columns:
    """The columns of one attribute name, published or derived, each made once for a view."""

    def __init__(self, view: NodeView, name: str, derive: Derive, *, has_lists: bool) -> None:
        self._view = view
        self._name = name
        self._derive = derive
        self._has_lists = has_lists

    def of(self, candidates: Candidates) -> Column:
        """The column that an alternative compares: its own derived attribute, or the published one."""
        expression = dict(candidates.alternative.derived_attributes).get(self._name)
        memo = self._view.memo
        key = ("column", self._name, expression, self._view.all if expression is None else candidates.mask)
        try:
            column = memo[key]
        except KeyError:
            column = memo[key] = self._make(*key[2:])
        assert isinstance(column, Column)
        return column

    def _make(self, expression: str | None, devices: Mask) -> Column:
        values: dict[int, frozenset[Token]] = {}
        groups: dict[Token, Mask] = {}
        failures: dict[int, str] = {}
        lists = 0
        for position in bits(devices):
            device = self._view.devices[position]
            found: Attribute | str | None
            found = lookup(device, self._name) if expression is None else self._derive(expression, device)
            if isinstance(found, str):
                failures[position] = found
            elif found is not None:
                own = tokens(found, position, has_lists=self._has_lists)
                if own:
                    values[position] = own
                    lists |= (not self._has_lists and is_list(found)) << position
                for token in own:
                    groups[token] = groups.get(token, 0) | 1 << position
        return Column(values, groups, sum(1 << position for position in values), lists, failures)


@dataclass(slots=True, eq=False)
class _OverAttribute:
    """What both kinds of constraint share. claim, position: where the constraint stands, for messages.

    is_fatal: a violation under `All` ends the attempt. covered: the alternatives that it covers; affected: the requests
    that it covers whichever alternative is chosen, with their alternatives; both are set once known.
    """

    view: NodeView
    claim: str
    position: int
    attribute: str
    columns: Columns
    is_fatal: bool
    covered: Sequence[Candidates] = field(default=(), init=False)
    affected: Sequence[Sequence[Candidates]] = field(default=(), init=False)

    @property
    def hides(self) -> bool:
        """A device that is refused is looked at by the other rules too."""
        return False

    def alike(self, device: int) -> Hashable:
        """Devices with the same values, published and derived, are the same."""
        columns = {id(column): column for column in map(self.columns.of, self.covered)}
        return tuple((column.tokens.get(device), device in column.failures) for column in columns.values())

    def touched(self) -> Mask:
        """None: a device's values do not change."""
        return 0

    def depends_on_order(self, candidates: Candidates) -> bool:
        """True where a set of devices may be refused in one order and not in another."""
        return False

    def refuse(self, slot: Slot, device: int) -> bool:
        """False, which refuses the device; under `All` an error where a violation ends the attempt."""
        if not (slot.is_forced and self.is_fatal):
            return False
        raise InvalidClaim(
            f"claim {self.claim}, request {slot.candidates.alternative.name}: cannot add device "
            f"{self.view.devices[device].id}, since constraint #{self.position} ({self.attribute}) would be violated"
        )

    def values(self, slot: Slot, device: int) -> frozenset[Token] | None:
        """The device's values for the slot's request. Raises InvalidClaim where a derived attribute fails on it."""
        column = self.columns.of(slot.candidates)
        if device in column.failures:
            raise InvalidClaim(
                f"claim {self.claim}, request {slot.candidates.alternative.name}: derived attribute {self.attribute} "
                f"on device {self.view.devices[device].id}: {column.failures[device]}"
            )
        return column.tokens.get(device)


@dataclass(slots=True, eq=False)
class MatchAttribute(_OverAttribute):
    """All devices have the attribute, with one and the same value."""

    _common: frozenset[Token] | None = field(default=None, init=False)

    def narrow(self, slot: Slot, domain: Mask) -> Mask:
        """The devices with a value that all picks have."""
        column = self.columns.of(slot.candidates)
        if self._common is None:
            return domain & (column.present | column.failing)
        return domain & ((_union(column.groups, self._common) & ~column.lists) | column.failing)

    def take(self, slot: Slot, device: int, trail: Trail) -> bool:
        """The first pick sets the values, each other one keeps those that it has too."""
        values = self.values(slot, device)
        common = values
        if self._common is not None and values is not None:
            is_a_list = self.columns.of(slot.candidates).lists >> device & 1
            common = frozenset() if is_a_list else self._common & values
        if not common:
            return self.refuse(slot, device)
        trail.push(self._restore, self._common)
        self._common = common
        return True

    def room(self, slot: Slot, domain: Mask) -> int:
        """As many as share a value that every request under the constraint could still use."""
        column = self.columns.of(slot.candidates)
        possible = (t for t in column.groups if self._is_viable(t)) if self._common is None else self._common
        most = max((_count(column.groups, token, domain) for token in possible), default=0)
        return most + (column.failing & domain).bit_count()

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask) -> int:
        """Not known."""
        return UNBOUNDED

    def state(self, classes: Sequence[Mask]) -> Hashable:
        """The values that all picks have."""
        return self._common

    def best(self) -> tuple[int, int]:
        """(how many devices one value can give at most, how many are needed), before any pick."""
        needed = sum(min(c.need for c in alternatives) for alternatives in self.affected)
        every = {token for candidates in self.covered for token in self.columns.of(candidates).groups}
        return max((min(self._offers(token), needed) for token in every), default=0), needed

    def _is_viable(self, token: Token) -> bool:
        return all(
            any(_count(self.columns.of(c).groups, token, c.mask) >= c.need for c in alternatives)
            for alternatives in self.affected
        )

    def _offers(self, token: Token) -> int:
        return sum(
            max(min(c.need, _count(self.columns.of(c).groups, token, c.mask)) for c in alternatives)
            for alternatives in self.affected
        )

    def _restore(self, old: object) -> None:
        self._common = old  # type: ignore[assignment]


@dataclass(slots=True, eq=False)
class DistinctAttribute(_OverAttribute):
    """All devices have the attribute, no two with a value in common; values of different kinds are distinct."""

    _used: frozenset[Token] = field(default=frozenset(), init=False)

    def depends_on_order(self, candidates: Candidates) -> bool:
        """A list that compares to nothing is taken as the first device, and never later."""
        return bool(self.columns.of(candidates).lists)

    def narrow(self, slot: Slot, domain: Mask) -> Mask:
        """The devices whose values have not been picked; a list that compares to nothing can only be the first."""
        column = self.columns.of(slot.candidates)
        domain &= column.present | column.failing
        if self._used:
            domain &= ~(_union(column.groups, self._used) | column.lists)
        return domain

    def take(self, slot: Slot, device: int, trail: Trail) -> bool:
        """Every pick needs values of its own."""
        values = self.values(slot, device)
        is_late_list = bool(self._used) and self.columns.of(slot.candidates).lists >> device & 1
        if values is None or self._used & values or is_late_list:
            return self.refuse(slot, device)
        trail.push(self._restore, self._used)
        self._used |= values
        return True

    def room(self, slot: Slot, domain: Mask) -> int:
        """One device for each value at most."""
        column = self.columns.of(slot.candidates)
        return sum(1 for mask in column.groups.values() if mask & domain) + (column.failing & domain).bit_count()

    def joint_room(self, alternatives: Sequence[Candidates], requests: int, domain: Mask) -> int:
        """One device for each value at most, where the constraint covers all of them."""
        if not all(any(one is covered for covered in self.covered) for one in alternatives):
            return UNBOUNDED
        columns = {id(column): column for column in map(self.columns.of, alternatives)}.values()
        values = {token for column in columns for token, mask in column.groups.items() if mask & domain}
        failing = [(column.failing & domain).bit_count() for column in columns]
        return len(values) + sum(failing)

    def state(self, classes: Sequence[Mask]) -> Hashable:
        """The values picked."""
        return self._used

    def best(self) -> tuple[int, int]:
        """(how many different values the candidates have, how many are needed), before any pick."""
        values: set[Token] = set()
        for alternatives in self.affected:
            for candidates in alternatives:
                groups = self.columns.of(candidates).groups
                values |= {token for token, mask in groups.items() if mask & candidates.mask}
        needed = sum(min(c.need for c in alternatives) for alternatives in self.affected)
        return min(needed, len(values)), needed

    def _restore(self, old: object) -> None:
        self._used = old  # type: ignore[assignment]


AttributeRule = MatchAttribute | DistinctAttribute


def rules_of(
    constraints: Sequence[Constraint], claim: str, attempt: Attempt
) -> tuple[tuple[Constraint, AttributeRule], ...]:
    """The rules of a claim's constraints. Raises InvalidClaim for one of a kind that is not known."""
    view, features = attempt.view, attempt.features
    # Differs from kube-scheduler, where a violated constraint under `All` ends the attempt on every node.
    is_fatal = features.is_strict
    has_lists = features.has(LIST_TYPE_ATTRIBUTES)
    rules: list[tuple[Constraint, AttributeRule]] = []
    for position, constraint in enumerate(constraints):
        name = constraint.match_attribute or constraint.distinct_attribute
        is_known = bool(constraint.match_attribute) or features.knows_capacity
        if not name or not is_known:
            raise InvalidClaim(f"claim {claim}, constraint #{position}: neither matchAttribute nor distinctAttribute")
        columns = Columns(view, name, _derive_in(attempt), has_lists=has_lists)
        kind = MatchAttribute if constraint.match_attribute else DistinctAttribute
        rules.append((constraint, kind(view, claim, position, name, columns, is_fatal)))
    return tuple(rules)


def _derive_in(attempt: Attempt) -> Derive:
    def derive(expression: str, device: Device) -> Attribute | str:
        if attempt.is_cancelled():
            raise Cancelled("cancelled before an attribute was derived")
        try:
            return cel.compile_value(expression, attempt.features.environment).evaluate(device)
        except cel.CompileError as error:
            return f"CEL compile error: {error}"
        except cel.EvalError as error:
            return f"CEL runtime error: {error}"

    return derive


def _union(groups: Mapping[Token, Mask], values: frozenset[Token]) -> Mask:
    union = 0
    for value in values:
        union |= groups.get(value, 0)
    return union


def _count(groups: Mapping[Token, Mask], token: Token, domain: Mask) -> int:
    return (groups.get(token, 0) & domain).bit_count()
