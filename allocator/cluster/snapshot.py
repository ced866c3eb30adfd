"""Everything that a decision reads, at one moment: slices, classes, devices in use, and what selectors accept.

A snapshot is a value. Snapshots made from one another share slices, views and `Selectors`; `Fleet`, which changes
slices and usage, takes some of its own first.

`Selectors` turns expressions into masks: which devices of a slice one accepts, and on which it fails. Nodes and pods
share slices, so an expression is evaluated once for each slice, and within a slice once for devices that agree in what
it reads (`ReadKey`). An attribute that cannot be read fails every expression, so it always counts. Agreement is
stricter than equality: expressions see how an amount is written. Errors are a second mask: they matter only if the
search reaches such a device, and are worded only then.
Source: KEP-4381, CEL selectors.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import cel
from allocator.bits import Mask
from allocator.cluster.pools import NodeView, Pool, SliceIndex, view_of
from allocator.cluster.usage import Usage
from allocator.gates import CONSUMABLE_CAPACITY, Features
from allocator.limit_use import LimitsInForce, LimitUse
from allocator.limits import Bindings
from allocator.memo import exact, values_of
from allocator.model import Alternative, Claim, Device, DeviceClass, Node, PoolID, Slice
from allocator.outcome import Budget, OutOfSteps
from allocator.words import did_you_mean
from cel import Cancelled, Reads

ANY_ATTRIBUTE: Final = "*"
"""In place of a qualified name: all attributes may be read."""

_READ_ALWAYS: Final = frozenset({"allow_multiple_allocations", "unusual"})


@dataclass(frozen=True, slots=True)
class ReadKey:
    """What is read of a device.

    names: attributes, as (domain, name, domain/name). has_all: any attribute may be read. has_capacity: capacities are.
    """

    names: tuple[tuple[str, str, str], ...]
    has_all: bool
    has_capacity: bool

    @staticmethod
    def of_programs(programs: Iterable[Reads], attributes: Iterable[str] = ()) -> "ReadKey":
        """What these programs read, and the attributes of these qualified names, or `ANY_ATTRIBUTE`."""
        paths = {path for reads in programs for path in reads.paths}
        read = {(path[1], path[2]) for path in paths if len(path) == 3 and path[0] == "attributes"}
        named = set(attributes)
        for attribute in named - {ANY_ATTRIBUTE}:
            domain, _, name = attribute.rpartition("/")
            read.add((domain, name))
        names = [(domain, name, f"{domain}/{name}") for domain, name in sorted(read)]
        of_all = any(not path or (len(path) < 3 and path[0] == "attributes") for path in paths)
        has_all = of_all or ANY_ATTRIBUTE in named
        return ReadKey(tuple(names), has_all, any(not path or path[0] == "capacity" for path in paths))

    @property
    def of_attributes(self) -> bool:
        """True if attributes are read."""
        return self.has_all or bool(self.names)

    def distinguishes(self, slice_: Slice) -> bool:
        """False if all devices of the slice agree in what is read."""
        return bool(self.names or self.has_all or self.has_capacity or slice_.traits & _READ_ALWAYS)

    def of(self, device: Device) -> Hashable:
        """Equal for devices of one driver that agree in what is read."""
        attributes, driver = device.attributes, device.driver
        if self.has_all:
            read: Hashable = tuple(sorted(attributes.items()))
        else:
            read = tuple(
                [
                    (attributes.get(qualified), attributes.get(name) if domain == driver else None)
                    for domain, name, qualified in self.names
                ]
            )
        if device.unusual:
            read = exact(read)
        capacity = exact(device.capacity) if self.has_capacity else None
        return read, device.unusual, capacity, device.allow_multiple_allocations


MOST_SELECTIONS = 1 << 16
"""Selections that are kept, of all expressions on all slices together, where these are few; some 5 MiB.

Beyond, the least recently used expression is forgotten on all slices.
"""

MOST_EXPRESSIONS = 1 << 12
"""Expressions that are kept however few slices there are: users may write any number of them."""

LEAST_EXPRESSIONS = 128
"""Expressions that are kept however many slices there are: a forgotten one is evaluated on all of them again."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The devices on which an expression is true, and those on which it fails."""

    matches: Mask
    errors: Mask


def selectors_of(device_class: DeviceClass, alternative: Alternative) -> Iterator[tuple[str, int, str]]:
    """(`class NAME` or `request NAME`, position, expression), in the order in which they are asked."""
    for position, expression in enumerate(device_class.selectors):
        yield f"class {device_class.name}", position, expression or ""
    for position, expression in enumerate(alternative.selectors):
        yield f"request {alternative.name}", position, expression or ""


Answers = dict[Hashable, tuple[bool | None, int]]
"""By what an expression reads of a device: whether it is selected, None if it fails; and how much work that was."""

_COSTLY: Final = 10_000
"""Work of an evaluation that is not done again to say why it failed."""

_MOST_ERRORS: Final = 256
"""Of such that are remembered."""

LEAST_WORK: Final = 64
"""Of the answers about a slice; those that were no more are not remembered with their work."""


NOTHING: Final = Selection(0, 0)
"""The answer of most expressions on most slices."""

_shared = lru_cache(maxsize=1024)(Selection)
"""Many expressions select the same devices of many slices: equal selections are one object."""


@dataclass(frozen=True, slots=True)
class _KnownAnswers:
    """What is known of an expression, by number of the slice.

    compiling: the work that this is. work: of the answers, where it was more than LEAST_WORK. begun: answers where it
    was cancelled, or took too long.
    """

    compiling: int
    selections: dict[int, Selection] = field(default_factory=dict)
    work: dict[int, int] = field(default_factory=dict)
    begun: dict[int, Answers] = field(default_factory=dict)


_LACKING: Final = " (a device that may lack it is asked with has(...) first, or with .? and orValue(...))"
"""Helps if a selector fails since an attribute is missing; kube-scheduler says so as of 1.37."""


def _hint(error: str, device: Device) -> str:
    """What helps against the error, or empty."""
    name = error.removeprefix("no such key: ")
    if name == error:
        return ""
    words = (word for one in (*device.attributes, *device.capacity) for word in one.partition("/")[::2] if word)
    return _LACKING + did_you_mean(name, words)


class Selectors:
    """The memo of expressions over slices, for one environment of the language.

    kept: how many selections are remembered now.
    """

    __slots__ = ("_costly_errors", "_environment", "_known", "_slices", "kept")

    def __init__(self, environment: cel.Environment) -> None:
        self.kept = 0
        self._environment = environment
        self._known: dict[str, _KnownAnswers] = {}
        self._slices: set[int] = set()
        self._costly_errors: dict[tuple[str, Hashable], str] = {}  # by expression and what it reads

    def select(
        self,
        expression: str,
        view: NodeView,
        is_cancelled: Callable[[], bool] = lambda: False,
        budget: Budget | None = None,
    ) -> Selection:
        """The answers over all devices of a view. Raises Cancelled, OutOfSteps, and goes on when it is asked again.

        is_cancelled: asked before the expression is evaluated on a device, and by its loops. budget: is charged for all
        evaluations once, also where the answers are known, so that the same question ends the same way.
        Cost: O(slices), plus O(devices) for slices not seen before.
        """
        if not view.segments:
            return NOTHING
        if budget is None or expression in budget.evaluated:
            budget = Budget()
        else:
            budget.evaluated.add(expression)
            budget.charge(self._answers_of(expression).compiling)
        known = self._answers_of(expression)
        if len(view.segments) == 1:
            return self._of_slice(expression, known, view.segments[0].slice, is_cancelled, budget)
        matches = errors = 0
        for segment in view.segments:
            selection = self._of_slice(expression, known, segment.slice, is_cancelled, budget)
            matches |= selection.matches << segment.offset
            errors |= selection.errors << segment.offset
        return Selection(matches, errors)

    def of_slice(self, expression: str, slice_: Slice) -> Selection:
        """The answers over the devices of one slice, whoever asks. Cost: O(devices) for a slice not seen before."""
        known = self._known.get(expression)
        if known is not None and (selection := known.selections.get(slice_.number)) is not None:
            return selection
        known = self._answers_of(expression)
        return self._of_slice(expression, known, slice_, lambda: False, Budget())

    def _answers_of(self, expression: str) -> _KnownAnswers:
        known = self._known.pop(expression, None) or _KnownAnswers(self._work_of_compiling(expression))
        self._known[expression] = known  # at the end: the first is the least recently used
        return known

    def _work_of_compiling(self, expression: str) -> int:
        try:
            return cel.compile(expression, self._environment).compiling
        except cel.CompileError:
            return cel.WORK_OF_A_CHARACTER * len(expression)

    def error(self, expression: str, device: Device, is_cancelled: Callable[[], bool] = lambda: False) -> str:
        """Why the expression fails on the device; empty if it does not. Raises Cancelled."""
        try:
            program = cel.compile(expression, self._environment)
            known = self._costly_errors.get((expression, _read_key(program.reads).of(device)))
            if known is not None:
                return known
            program.evaluate(device, is_cancelled)
        except cel.CompileError as error:
            return f"CEL compile error: {error}"
        except cel.EvalError as error:
            return _runtime_error(error, device)
        return ""

    def forget(self, slice_: Slice) -> None:
        """Forget a slice that is gone. Cost: O(expressions)."""
        if slice_.number not in self._slices:
            return
        self._slices.remove(slice_.number)
        for expression, known in list(self._known.items()):
            known.begun.pop(slice_.number, None)
            known.work.pop(slice_.number, None)
            if known.selections.pop(slice_.number, None) is not None:
                self.kept -= 1
            if not known.selections and not known.begun:
                del self._known[expression]

    def _of_slice(
        self, expression: str, known: _KnownAnswers, slice_: Slice, is_cancelled: Callable[[], bool], budget: Budget
    ) -> Selection:
        number = slice_.number
        selection = known.selections.get(number)
        if selection is not None:
            budget.charge(known.work.get(number, LEAST_WORK))
            return selection
        self._slices.add(number)
        answers, before = known.begun.pop(number, {}), budget.spent
        try:
            selection = known.selections[number] = self._evaluate(expression, slice_, answers, is_cancelled, budget)
        except (Cancelled, OutOfSteps):
            known.begun[number] = answers
            raise
        work = budget.spent - before
        if work > LEAST_WORK:
            known.work[number] = work
        else:
            budget.charge(LEAST_WORK - work)
        self.kept += 1
        most = max(MOST_SELECTIONS, LEAST_EXPRESSIONS * len(self._slices))
        while (self.kept > most or len(self._known) > MOST_EXPRESSIONS) and len(self._known) > 1:
            self.kept -= len(self._known.pop(next(iter(self._known))).selections)
        return selection

    def _evaluate(
        self, expression: str, slice_: Slice, answers: Answers, is_cancelled: Callable[[], bool], budget: Budget
    ) -> Selection:
        """answers: those that are known already; grows in place."""
        devices = slice_.devices
        try:
            program = cel.compile(expression, self._environment)
        except cel.CompileError:
            return _shared(0, (1 << len(devices)) - 1)
        read = _read_key(program.reads)
        is_one_for_all = bool(devices) and not read.distinguishes(slice_)
        matches = errors = 0
        asked = set[Hashable]()
        for position, device in enumerate(devices[:1] if is_one_for_all else devices):
            key = None if is_one_for_all else read.of(device)
            if key not in answers:
                answers[key] = self._answer(expression, program, device, is_cancelled)
            answer, work = answers[key]
            if key not in asked:
                asked.add(key)
                budget.charge(work)
            if answer is None:
                errors |= 1 << position
            elif answer:
                matches |= 1 << position
        if is_one_for_all:
            every = (1 << len(devices)) - 1
            matches, errors = matches * every, errors * every
        return _shared(matches, errors) if matches or errors else NOTHING

    def _answer(
        self, expression: str, program: cel.Program, device: Device, is_cancelled: Callable[[], bool]
    ) -> tuple[bool | None, int]:
        """Whether the device is selected, None if the selector fails on it; and the work. Raises Cancelled."""
        if is_cancelled():
            raise Cancelled("cancelled before a selector was evaluated")
        verdict, work = program.judge(device, is_cancelled)
        if not isinstance(verdict, cel.EvalError):
            return verdict is True, work
        if work > _COSTLY:
            if len(self._costly_errors) >= _MOST_ERRORS:
                del self._costly_errors[next(iter(self._costly_errors))]
            self._costly_errors[expression, _read_key(program.reads).of(device)] = _runtime_error(verdict, device)
        return None, work


def _runtime_error(error: cel.EvalError, device: Device) -> str:
    return f"CEL runtime error: {error}{_hint(str(error), device)}"


@lru_cache(maxsize=4096)
def _read_key(reads: cel.Reads) -> ReadKey:
    return ReadKey.of_programs([reads])


MOST_VIEWS: Final = 1 << 17
"""Views that are kept; beyond, the oldest is forgotten."""

MOST_REMEMBERED: Final = 32
"""New values that a view remembers before it forgets those not used since, if there are few views."""

REMEMBERED_BY_ALL = 1 << 16
"""New values that all views together remember; some 50 MiB with those that are used again and again."""

LEAST_REMEMBERED: Final = 8
"""New values that a view remembers however many views there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The cluster's devices at one moment; made by `of`, continued by `with_allocated`."""

    features: Features
    slices: SliceIndex
    classes: Mapping[str, DeviceClass]
    """By name."""
    usage: Usage
    selectors: Selectors
    limited: LimitUse = field(default_factory=LimitUse)
    """How much is in use of the limits of tenants."""
    _views: dict[str | None, tuple[Node | None, NodeView]] = field(default_factory=dict)

    @staticmethod
    def of(
        slices: Iterable[Slice], classes: Iterable[DeviceClass], claims: Iterable[Claim], features: Features
    ) -> "Snapshot":
        """A snapshot of these objects; the allocated ones among the claims say what is in use."""
        return Snapshot(
            features,
            SliceIndex(features.release, slices),
            {device_class.name: device_class for device_class in classes},
            _no_usage(features).plus(claims),
            Selectors(features.environment),
        )

    @property
    def by_pool(self) -> Mapping[PoolID, Sequence[Slice]]:
        """All slices of each pool, of whichever generation."""
        return self.slices.by_pool

    def with_usage(self, usage: Usage) -> "Snapshot":
        """The snapshot in which this is in use."""
        return Snapshot(self.features, self.slices, self.classes, usage, self.selectors, self.limited, self._views)

    def with_limited(self, limited: LimitUse) -> "Snapshot":
        """The snapshot in which these limits hold, and so much of them is in use."""
        return Snapshot(self.features, self.slices, self.classes, self.usage, self.selectors, limited, self._views)

    def with_limits(self, limits: LimitsInForce, claims: Iterable[Claim]) -> "Snapshot":
        """The snapshot in which these limits hold. claims: those that are allocated."""
        return self.with_limited(LimitUse(limits).plus(claims, self))

    def with_allocated(self, claims: Iterable[Claim]) -> "Snapshot":
        """The snapshot in which these allocated claims hold their devices too."""
        claims = tuple(claims)
        return self.with_usage(self.usage.plus(claims)).with_limited(self.limited.plus(claims, self))

    def with_usage_of(self, claims: Iterable[Claim], released: Iterable[Claim] = ()) -> "Snapshot":
        """The snapshot in which these allocated claims, and no others, hold their devices.

        released: those of which limits count no more; of all others they do.
        """
        usage = _no_usage(self.features).plus(claims)
        return self.with_usage(usage).with_limited(self.limited.plus(released, self, -1))

    def bindings(self, claims: Sequence[Claim]) -> Bindings:
        """The limits that these claims of one namespace, which have no devices yet, could exceed."""
        return self.limited.bindings(claims, self)

    def with_classes(self, classes: Mapping[str, DeviceClass]) -> "Snapshot":
        """The snapshot with these classes, by name."""
        return replace(self, classes=classes)

    def pools(self, node: Node | None) -> tuple[Pool, ...]:
        """The pools that the node reaches, in canonical order. Raises InvalidPool."""
        return self.slices.pools(node, self.features)

    def view(self, node: Node | None) -> NodeView:
        """The devices that the node reaches. Raises InvalidPool.

        Kept for as long as the node stays the same in all that counts, and its slices do.
        """
        name = node.name if node else None
        known = self._views.get(name)
        if known is not None and (known[0] is node or is_same(known[0], node)):
            share = REMEMBERED_BY_ALL // len(self._views)
            known[1].memo.age(max(LEAST_REMEMBERED, min(MOST_REMEMBERED, share)))
            return known[1]
        view = view_of(node, self.pools(node))
        self._views[name] = (node, view)
        if len(self._views) > MOST_VIEWS:
            del self._views[next(iter(self._views))]
        return view

    def forget_view(self, name: str | None) -> None:
        """Forget the view of that node: its slices have changed, or it is gone."""
        self._views.pop(name, None)

    def apart(self) -> "Snapshot":
        """The same snapshot, with slices and views of its own: those of this one stay as they are. Cost: O(slices)."""
        return replace(self, slices=self.slices.copy(), limited=self.limited.apart(), _views=dict(self._views))


def _no_usage(features: Features) -> Usage:
    return Usage(features.has(CONSUMABLE_CAPACITY))


def is_same(old: Node | None, new: Node | None) -> bool:
    """True if both reach the same devices and can use them in the same way."""
    if old is None or new is None:
        return old is new
    return _of_node(old) == _of_node(new)


NOT_FOR_DEVICES: Final = dict.fromkeys(
    ["taints", "unschedulable", "allocatable", "images"], "they decide about pods, not about devices"
)
"""Fields of a node without influence on its devices."""

_of_node = values_of(Node, NOT_FOR_DEVICES)
