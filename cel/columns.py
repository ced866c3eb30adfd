"""Many devices at once: each path that a selector reads becomes a column of codes, encoded once for all selectors.

A column has a dictionary of its distinct values; an atom is evaluated once per distinct value (or combination of
values), which gives a table from code to answer; a selector is array operations on the answers of its atoms, where
F=0, E=1 (an error) and T=2 make `&&` the minimum and `||` the maximum, errors included. What this cannot do exactly is
left to the exact evaluator, device by device, and counted. Devices come in blocks (slices): changing one block
encodes only its devices anew. Not for use by several threads at once.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cel.atoms import Atom, Both, Not, Quick, Tree, atoms_of, count_of_nots
from cel.device import BoundDevice, Device, PlainDevice, bind_device, check_attributes
from cel.errors import EvalAbortedError, EvalError
from cel.frame import COST_LIMIT, MOST_PARTS, Frame
from cel.quantity import Quantity
from cel.reads import Path
from cel.values import Optional

FALSE, ERROR, TRUE, ABORTED = 0, 1, 2, 3
_Codes: TypeAlias = NDArray[np.int32]
_Answers: TypeAlias = NDArray[np.int8]
_Mask: TypeAlias = NDArray[np.bool_]
_MOST_TABLES: Final = 4096  # atoms whose answers are remembered
_MOST_COMBINATIONS: Final = 2**62
_SPARE: Final = 1024  # values of a dictionary that may be out of use before it is made anew

_Entry: TypeAlias = tuple[str, Any] | Quantity  # an attribute's kind and value, or an amount
_AMOUNT: Final = attrgetter("form")
_PLAIN: Final = {"int": int, "bool": bool, "string": str}


class _Numbers(dict[Hashable, int]):
    """Numbers its keys in the order in which they are first asked for."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class _Column:
    """The dictionary of one path. Code 0 is for devices that don't have the path.

    entries: as published, by code. kinds: of all entries. longest: the longest text, if there is one.
    """

    __slots__ = ("_codes", "entries", "kinds", "longest", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._codes = _Numbers({None: 0})
        self.entries: list[_Entry | None] = [None]
        self.kinds: set[str] = set()
        self.longest = ""

    def encode(self, devices: Sequence[Device], invalid: _Mask) -> _Codes:
        """The codes of devices, of the invalid ones any; entries not seen before get the next ones."""
        published = _published(self.path, devices)
        for at in np.flatnonzero(invalid):  # what cannot be read may be equal to what can, as True is to 1
            published[at] = None
        keys: Iterable[Hashable] = published
        if self.path[0] == "capacity":
            keys = (entry and _AMOUNT(entry) for entry in published)
        codes = np.fromiter(map(self._codes.__getitem__, keys), np.int32, len(devices))
        self._add(list(islice(reversed(self._codes), len(self._codes) - len(self.entries))))
        return codes

    def _add(self, newest: list[Any]) -> None:
        """Keys that are numbered by now, the newest first."""
        self.entries += [Quantity(*key) for key in reversed(newest)] if self.path[0] == "capacity" else newest[::-1]
        for kind, value in map(_plain, newest):
            if kind not in self.kinds:
                self.kinds.add(kind)
            if kind == "string" and len(value) > len(self.longest):
                self.longest = value

    def dearest(self, kind: str | None) -> _Entry | None:
        """The entry that costs most among those that a quick test for the kind has answered."""
        return {"string": ("string", self.longest), "int": ("int", 0)}.get(kind or "", self.entries[-1])

    def code_of(self, kind: str, value: object) -> int:
        """The code of a plain value, 0 where no device has it."""
        return self._codes.get((kind, value), 0)


def _plain(entry: _Entry | None) -> tuple[str, Any]:
    """Kind and value of an int, a bool or a string; ("", None) for all else."""
    if type(entry) is tuple and type(entry[1]) is _PLAIN.get(entry[0]):
        return entry
    return "", None


def _published(path: Path, devices: Sequence[Device]) -> list[_Entry | None]:
    """What each device publishes under a path; None for nothing."""
    if path == ("driver",):
        return [("string", device.driver) for device in devices]
    if path == ("allowMultipleAllocations",):
        return [("bool", device.allow_multiple_allocations) for device in devices]
    table, domain, identifier = path
    name = f"{domain}/{identifier}"
    # A name is split at its first slash, so one with two of them has a domain in it.
    own = domain if "/" not in identifier else None
    read = attrgetter(table)
    found = [read(device).get(identifier if device.driver == own else name) for device in devices]
    if own is not None:
        # What is written with the driver's domain, though it need not be.
        for at in [at for at, entry in enumerate(found) if entry is None]:
            found[at] = read(devices[at]).get(name)
    return found


@dataclass(eq=False, slots=True)
class _Block:
    """The devices of one slice. invalid: those that fail every expression. codes: by path, made when asked for."""

    devices: Sequence[Device]
    invalid: _Mask
    codes: dict[Path, _Codes] = field(default_factory=dict)


class _Table:
    """What an atom answers, by code.

    most_cost, most_parts: the largest that one evaluation took. has_aborted: whether one of them was ended.
    """

    __slots__ = ("answers", "has_aborted", "known", "most_cost", "most_parts", "of_devices")

    def __init__(self, size: int) -> None:
        self.answers: _Answers = np.empty(size, np.int8)
        self.known = 0
        self.most_cost = 0
        self.most_parts = 0
        self.has_aborted = False
        self.of_devices: _Answers | None = None


class ColumnsInfo(NamedTuple):
    """How full the columns are: devices, paths with their distinct values in all, tables of at most `most_tables`."""

    devices: int
    paths: int
    values: int
    tables: int
    most_tables: int


class Columns:
    """The devices of a fleet, in blocks, with a column for each path that was asked for.

    has_lists: as in the environment of the programs that are asked (`Environment.has_list_attributes`).
    """

    def __init__(self, devices: Sequence[Device] = (), *, has_lists: bool = True) -> None:
        self.has_lists = has_lists
        self._blocks: dict[Hashable, _Block] = {}
        self._columns: dict[Path, _Column] = {}
        self._joined: dict[tuple[Path, ...], _Codes] = {}
        self._tables: OrderedDict[Atom, _Table] = OrderedDict()
        self._invalid: _Mask | None = None
        self._size = 0
        self._starts: list[int] | None = None
        if devices:
            self.put(None, devices)

    def __len__(self) -> int:
        return self._size

    def put(self, key: Hashable, devices: Sequence[Device]) -> None:
        """Adds a block, or puts other devices in place of it; only these are read."""
        invalid = np.fromiter((not self._is_valid(device) for device in devices), np.bool_, len(devices))
        before = self._blocks.get(key)
        self._blocks[key] = _Block(devices, invalid)
        self._changed(len(devices) - (len(before.devices) if before else 0))

    def remove(self, key: Hashable) -> None:
        """Takes a block away; raises KeyError."""
        self._changed(-len(self._blocks.pop(key).devices))

    def span(self, key: Hashable) -> slice:
        """Where the devices of a block stand among all; raises KeyError."""
        self._blocks[key]
        number = list(self._blocks).index(key)
        starts = self._all_starts()
        return slice(starts[number], starts[number + 1])

    def device(self, position: int) -> Device:
        """The device at a position among all."""
        starts = self._all_starts()
        number = bisect_right(starts, position) - 1
        return list(self._blocks.values())[number].devices[position - starts[number]]

    def _all_starts(self) -> list[int]:
        """Where each block begins, and the end."""
        if self._starts is None:
            self._starts = [0, *accumulate(len(block.devices) for block in self._blocks.values())]
        return self._starts

    def info(self) -> ColumnsInfo:
        """How full the columns are."""
        values = sum(len(column.entries) for column in self._columns.values())
        return ColumnsInfo(len(self), len(self._columns), values, len(self._tables), _MOST_TABLES)

    def invalid(self) -> _Mask:
        """The devices that fail every expression."""
        if self._invalid is None:
            parts = [block.invalid for block in self._blocks.values()]
            self._invalid = np.concatenate(parts) if parts else np.zeros(0, np.bool_)
        return self._invalid

    def _is_valid(self, device: Device) -> bool:
        try:
            check_attributes(device.attributes, has_lists=self.has_lists)
        except EvalError:
            return False
        return True

    def _changed(self, more: int) -> None:
        self._size += more
        self._joined.clear()
        self._starts = None
        self._invalid = None
        for table in self._tables.values():
            table.of_devices = None
        live = len(self)
        for path, column in list(self._columns.items()):
            if len(column.entries) > 2 * live + _SPARE:
                self._forget(path)

    def _forget(self, path: Path) -> None:
        """Drops a dictionary most of whose values are out of use; it is made anew when it is asked for."""
        del self._columns[path]
        for block in self._blocks.values():
            block.codes.pop(path, None)
        for atom in [atom for atom in self._tables if atom.paths and path in atom.paths]:
            del self._tables[atom]

    # Codes

    def codes(self, path: Path) -> _Codes:
        """The code of each device under a path."""
        joined = self._joined.get((path,))
        if joined is None:
            joined = self._joined[path,] = self._encoded(path)
        return joined

    def _encoded(self, path: Path) -> _Codes:
        column = self._columns.get(path)
        if column is None:
            column = self._columns[path] = _Column(path)
        blocks = self._blocks.values()
        missing = [block for block in blocks if path not in block.codes]
        invalid = np.concatenate([block.invalid for block in missing]) if missing else np.zeros(0, np.bool_)
        codes = column.encode([device for block in missing for device in block.devices], invalid)
        start = 0
        for block in missing:
            block.codes[path] = codes[start : start + len(block.devices)]
            start += len(block.devices)
        return codes if len(missing) == len(blocks) else np.concatenate([block.codes[path] for block in blocks])

    # Answers

    def answers(self, atom: Atom) -> tuple[_Answers, _Table]:
        """The answer of an atom whose paths are single values, for each device, and the table that it comes from."""
        assert atom.paths is not None
        if len(atom.paths) != 1:
            return self._combined_answers(atom, atom.paths)
        (path,) = atom.paths
        codes, column = self.codes(path), self._columns[path]
        table = self._table(atom, len(column.entries))
        if table.known < len(column.entries):
            self._fill(table, atom, column)
        return table.answers.take(codes), table

    def _table(self, atom: Atom, size: int) -> _Table:
        table = self._tables.get(atom)
        if table is None:
            table = self._tables[atom] = _Table(size)
            if len(self._tables) > _MOST_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(atom)
        if len(table.answers) < size:
            table.answers = np.concatenate([table.answers, np.empty(size - len(table.answers), np.int8)])
        return table

    def _fill(self, table: _Table, atom: Atom, column: _Column) -> None:
        """Answers the values that came since the table was last used."""
        first, table.known = table.known, len(column.entries)
        rest: Iterable[int] = range(first, len(column.entries))
        if atom.quick is not None:
            rest = _fill_quickly(table, atom.quick, column, first)
            self._answer(table, atom, {column.path: column.dearest(atom.quick.kind)})
        for code in rest:
            table.answers[code] = self._answer(table, atom, {column.path: column.entries[code]})

    def _combined_answers(self, atom: Atom, paths: tuple[Path, ...]) -> tuple[_Answers, _Table]:
        """For atoms that read several values, or none: one evaluation for each combination that occurs."""
        table = self._table(atom, 0)
        if table.of_devices is None:
            firsts, inverse = self._combinations(paths)
            answers = np.empty(len(firsts), np.int8)
            for number, position in enumerate(firsts):
                entries = {path: self._entries(path)[self.codes(path)[position]] for path in paths}
                answers[number] = self._answer(table, atom, entries)
            table.of_devices = answers[inverse]
        return table.of_devices, table

    def _combinations(self, paths: tuple[Path, ...]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """A device for each combination of codes that occurs, and the number of the combination of each device."""
        combined, size = np.zeros(len(self), np.int64), 1
        for path in paths:
            if size * len(self._entries(path)) > _MOST_COMBINATIONS:
                combined, size = np.unique(combined, return_inverse=True)[1].astype(np.int64), len(self)
            size *= len(self._entries(path))
            combined = combined * len(self._entries(path)) + self.codes(path)
        _, firsts, inverse = np.unique(combined, return_index=True, return_inverse=True)
        return firsts, inverse

    def _entries(self, path: Path) -> list[_Entry | None]:
        self.codes(path)
        return self._columns[path].entries

    def _answer(self, table: _Table, atom: Atom, entries: Mapping[Path, _Entry | None]) -> int:
        try:
            device = BoundDevice(_with_entries(entries), has_lists=self.has_lists)
        except EvalError:
            return ERROR  # such a device fails every expression
        return _answer_on(table, atom, device)


def _with_entries(entries: Mapping[Path, _Entry | None]) -> PlainDevice:
    """A device of which only these paths matter."""
    tables: dict[str, dict[str, Any]] = {"attributes": {}, "capacity": {}}
    fields: dict[Path, Any] = {("driver",): ("string", ""), ("allowMultipleAllocations",): ("bool", False)}
    for path, entry in entries.items():
        if entry is None:
            continue
        if path in fields:
            fields[path] = entry
        else:
            tables[path[0]]["/".join(path[1:])] = entry
    (_, driver), (_, is_shared) = fields.values()
    return PlainDevice(driver, tables["attributes"], tables["capacity"], is_shared)


def _fill_quickly(table: _Table, quick: Quick, column: _Column, first: int) -> Iterable[int]:
    """Answers the values of the kind that the quick test knows; gives the codes of the others."""
    start = max(first, 1)  # code 0 is no value
    others = range(first, start)
    if quick.kind is None:
        table.answers[start:] = TRUE
        return others
    of_kind = np.ones(len(column.entries) - start, np.bool_)
    if not column.kinds <= {quick.kind}:
        of_kind[:] = [_plain(entry)[0] == quick.kind for entry in column.entries[start:]]
    if quick.only is not None:
        table.answers[start:] = FALSE
        for value in quick.only:
            code = column.code_of(quick.kind, value)
            if code >= start:
                table.answers[code] = TRUE
    else:
        known = [_plain(entry)[1] for entry in compress(column.entries[start:], of_kind)]
        try:
            passed = np.array(quick.test(known), np.bool_)
        except EvalError:  # a text too long for a pattern
            return range(first, len(column.entries))
        table.answers[start:][of_kind] = passed * np.int8(TRUE)
    return [*others, *(int(code) for code in np.flatnonzero(~of_kind) + start)]


def _answer_on(table: _Table, atom: Atom, device: BoundDevice) -> int:
    """What an atom answers on one device, by the exact evaluator; notes what it took."""
    frame = Frame(device, atom.planned.slots, COST_LIMIT)
    try:
        value = frame.run(atom.planned.evaluate)
    except EvalAbortedError:
        table.has_aborted = True
        return ABORTED
    except EvalError:
        return ERROR
    finally:
        table.most_cost = max(table.most_cost, frame.cost)
        table.most_parts = max(table.most_parts, MOST_PARTS - frame.parts_left)
    while atom.is_root and isinstance(value, Optional) and value.is_present:
        value = value.value
    return (FALSE, TRUE)[value] if isinstance(value, bool) else ERROR


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The answers of a selector over columns, by position of the device.

    mask: where it is true. errors: where it fails; `error` says why. evaluated_exactly: on how many devices the exact
    evaluator had to be asked.
    """

    mask: _Mask
    errors: _Mask
    evaluated_exactly: int
    _exact: Callable[[Device], bool]
    _columns: Columns

    def error(self, position: int) -> EvalError | None:
        """Why the selector fails on a device, found only now; None where it does not."""
        try:
            self._exact(self._columns.device(position))
        except EvalError as error:
            return error
        return None


def matches(tree: Tree, columns: Columns, exact: Callable[[Device], bool]) -> Matches:
    """Evaluates a selector over all devices; exact: evaluates it on one."""
    run = _Run(columns)
    answers = run.evaluate(tree, None)
    invalid = columns.invalid()
    by_one = run.aborted if run.is_within_limits(tree) else np.ones(len(columns), np.bool_)
    positions: list[int] = [] if by_one is None else np.flatnonzero(by_one & ~invalid).tolist()
    for position in positions:
        answers[position] = _exactly(exact, columns.device(position))
    mask, errors = (answers == TRUE) & ~invalid, (answers == ERROR) | invalid
    return Matches(mask, errors, run.evaluated_exactly + len(positions), exact, columns)


def _exactly(exact: Callable[[Device], bool], device: Device) -> int:
    try:
        return TRUE if exact(device) else FALSE
    except EvalError:
        return ERROR


class _Run:
    """One selector over columns.

    aborted: where an atom ended the evaluation, which logic does not absorb; None where none did.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._tables: list[_Table] = []
        self.aborted: _Mask | None = None
        self.evaluated_exactly = 0

    def evaluate(self, tree: Tree, active: _Mask | None) -> _Answers:
        """The answers; where `active` is false nobody asks, and any will do."""
        if isinstance(tree, Atom):
            return self._atom(tree, active)
        if isinstance(tree, Not):
            return np.int8(TRUE) - self.evaluate(tree.operand, active)
        # What has columns goes first, so that the rest is asked only where it still matters.
        left, right = (tree.left, tree.right) if _has_columns(tree.left) else (tree.right, tree.left)
        first = self.evaluate(left, active)
        decided = FALSE if isinstance(tree, Both) else TRUE
        if not _has_columns(right):
            open_ = first != decided
            active = open_ if active is None else active & open_
        second = self.evaluate(right, active)
        return np.minimum(first, second) if isinstance(tree, Both) else np.maximum(first, second)

    def _atom(self, atom: Atom, active: _Mask | None) -> _Answers:
        if atom.paths is None:
            return self._by_one(atom, active)
        answers, table = self._columns.answers(atom)
        self._tables.append(table)
        if not table.has_aborted:
            return answers
        self._abort(answers == ABORTED)
        return np.where(answers == ABORTED, np.int8(ERROR), answers)

    def _abort(self, where: _Mask) -> None:
        self.aborted = where if self.aborted is None else self.aborted | where

    def _by_one(self, atom: Atom, active: _Mask | None) -> _Answers:
        """For an atom that reads more than single values: device by device, where it matters."""
        columns, table = self._columns, _Table(0)
        self._tables.append(table)
        answers = np.zeros(len(columns), np.int8)
        asked = ~columns.invalid() if active is None else active & ~columns.invalid()
        for position in np.flatnonzero(asked):
            device = bind_device(columns.device(int(position)), has_lists=columns.has_lists)
            answers[position] = _answer_on(table, atom, device)
        self.evaluated_exactly += int(asked.sum())
        self._abort(answers == ABORTED)
        return np.minimum(answers, np.int8(TRUE))

    def is_within_limits(self, tree: Tree) -> bool:
        """Whether no device can reach a limit of the evaluation: the dearest answers of all atoms together do not."""
        most_cost = count_of_nots(tree) + sum(table.most_cost for table in self._tables)
        return most_cost <= COST_LIMIT and sum(table.most_parts for table in self._tables) <= MOST_PARTS


def _has_columns(tree: Tree) -> bool:
    return all(atom.paths is not None for atom in atoms_of(tree))
