"""Plans a checked expression for evaluation: every node becomes a constant, a path or a step.

Planning happens once per program. A step is a closure that takes the frame of an evaluation and returns a value; errors
are raised as EvalError and caught where logic may absorb them. The planner binds names to slots, so that evaluation
looks up nothing by name.
Source: interpreter/planner.go of github.com/google/cel-go.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from cel.check.checker import CallReference, Checked, ConstantReference, Declarations, VariableReference
from cel.errors import CompileError, EvalAbortedError, EvalError
from cel.run import steps
from cel.run.calls import PATTERN, invocation, planned_call
from cel.run.frame import (
    ComputedQualifier,
    ConditionalPath,
    ConstantQualifier,
    Evaluate,
    Frame,
    GuardedPath,
    Path,
    Planned,
    Qualifier,
    ValuePath,
    device_evaluator,
    device_variable,
    is_key,
)
from cel.run.patterns import PatternBudget
from cel.stack import LEVELS, with_room
from cel.syntax import ast, lexer
from cel.syntax.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, MessageExpr, Select
from cel.values.numbers import int_from_double, uint_from_double
from cel.values.types import Kind, Type
from cel.values.values import MAX_INT, GrowingList, GrowingMap, List, Map, Uint, Value, equal, key_of, type_of

# Constant folding, as far as the reference does it and it affects answers, errors or costs.
#
# The conversion of a constant is a constant, or the expression does not compile. An invalid constant pattern does not
# compile either. `in` with a list of constants becomes a set lookup, which costs nothing and hashes its left side.
# Source: interpreter/decorators.go of github.com/google/cel-go.

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_HASHED: Final = frozenset({bool, int, Uint, float, str})


@dataclass(frozen=True, slots=True)
class Constant:
    """A node whose value is known while planning."""

    value: Value


def failure(message: str, node: ast.Expr, checked: Checked) -> CompileError:
    """The error of a constant expression that fails."""
    return lexer.error_at(f"program instantiation failed: {message}", node.position, checked.source)


def converted(node: Call, reference: CallReference, operands: Sequence[object], checked: Checked) -> Constant | None:
    """The result of converting a constant, or None if the call is no such conversion."""
    if reference.function not in _CONVERSIONS or len(operands) != 1 or not isinstance(operands[0], Constant):
        return None
    try:
        return Constant(invocation(reference.overloads)(operands[0].value))
    except EvalError as error:
        raise failure(error.message, node, checked) from None


def has_constant_pattern(
    node: Call, reference: CallReference, operands: Sequence[object], checked: Checked, budget: PatternBudget
) -> bool:
    """Whether a call has a constant pattern; raises CompileError if the pattern is invalid or exceeds the budget."""
    if not reference.overloads[0].takes_pattern:
        return False
    pattern = operands[PATTERN]
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        return False
    try:
        budget.spend(pattern.value)
    except (EvalError, ValueError) as error:
        raise failure(str(error), node, checked) from None
    return True


def membership(
    reference: CallReference, operands: Sequence[object]
) -> Constant | Callable[[Evaluate], Evaluate] | None:
    """`x in [constants]`: a constant for an empty list, else a set lookup of the left side; None for anything else."""
    if [overload.id for overload in reference.overloads] != ["in_list"]:
        return None
    container = operands[1]
    if not isinstance(container, Constant) or not isinstance(container.value, List):
        return None
    if not container.value:
        return Constant(value=False)
    if any(type(item) not in _HASHED for item in container.value):
        return None
    return _looked_up(frozenset(key for item in container.value for key in _keys(item)))


def _looked_up(keys: frozenset[Hashable]) -> Callable[[Evaluate], Evaluate]:
    def step(wanted: Evaluate) -> Evaluate:
        def evaluate(frame: Frame) -> Value:
            return key_of(wanted(frame)) in keys

        return evaluate

    return step


def _keys(item: Value) -> list[Hashable]:
    """The keys of an element: itself and equal numbers of other types; the nearest double counts as equal."""
    keys = [key_of(item)]
    if type(item) is float:
        keys.extend(_integer_keys(item))
    elif type(item) is int:
        keys.append(key_of(float(item)))
        if item >= 0:
            keys.append(key_of(Uint(item)))
    elif type(item) is Uint:
        keys.append(key_of(float(item)))
        if item <= MAX_INT:
            keys.append(key_of(int(item)))
    return keys


def _integer_keys(item: float) -> list[Hashable]:
    keys: list[Hashable] = []
    for convert in (int_from_double, uint_from_double):
        try:
            integer = convert(item)
        except EvalError:
            continue
        if equal(integer, item):
            keys.append(key_of(integer))
    return keys


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A node that is neither a constant nor a path."""

    evaluate: Evaluate


Plan: TypeAlias = Constant | Path | PlannedStep
_LEVELS_AT_ONCE: Final = 32  # of the evaluation, between two checks of the stack


def plan(checked: Checked, declared: Declarations) -> Planned:
    """Plans a checked expression; raises CompileError if a constant part of it fails."""
    planner = _Planner(checked, declared)
    evaluate = _evaluator(planner.plan(checked.root))
    return Planned(evaluate, planner.slots, planner.patterns.spent)


def _evaluator(planned: Plan) -> Evaluate:
    if isinstance(planned, Constant):
        value = planned.value
        return lambda _: value
    if isinstance(planned, PlannedStep):
        return planned.evaluate
    return device_evaluator(planned) if isinstance(planned, ValuePath) else planned.evaluate


def _with_room(planned: Plan) -> Plan:
    """The same plan, evaluated on a new stack if there is little space left."""
    if isinstance(planned, Constant):
        return planned
    return PlannedStep(steps.with_room(planned.evaluate)) if isinstance(planned, PlannedStep) else GuardedPath(planned)


def _path(planned: Plan) -> Path:
    return planned if isinstance(planned, Path) else ValuePath(_evaluator(planned))


class _Planner:
    """Plans one expression. scopes: the readers of the variables of macros, innermost last."""

    def __init__(self, checked: Checked, declared: Declarations) -> None:
        self._checked = checked
        self._declared = declared
        self._scopes: list[dict[str, Evaluate]] = []
        self.patterns = PatternBudget()
        self._depth = 0
        self.slots = 0

    def plan(self, node: Expr) -> Plan:
        self._depth += 1
        make = _PLANS[type(node)]
        planned = make(self, node) if self._depth % LEVELS else with_room(make, self, node)
        if self._depth % _LEVELS_AT_ONCE == 0:
            planned = _with_room(planned)
        self._depth -= 1
        return planned

    def _step(self, node: Expr) -> Evaluate:
        return _evaluator(self.plan(node))

    def _steps(self, reference: CallReference) -> list[Evaluate]:
        return [self._step(operand) for operand in reference.operands]

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    # Names and fields

    def _literal(self, node: Literal) -> Plan:
        return Constant(node.value)

    def _name(self, node: Expr) -> Plan:
        reference = self._checked.references[node]
        if isinstance(reference, ConstantReference):
            return Constant(reference.value)
        assert isinstance(reference, VariableReference)
        type_ = self._named_type(reference.name, node, node)
        if type_ is not None:
            return Constant(type_)
        return ValuePath(device_variable if reference.is_global else self._variable(reference.name))

    def _named_type(self, name: str, value: Expr, node: Expr) -> Type | None:
        """The type that a variable of type `type` is taken for, by its name; raises CompileError if there is none."""
        if self._checked.types[value].kind is not Kind.TYPE:
            return None
        if name not in self._declared.types:
            raise failure(f"reference to undefined type: {name}", node, self._checked)
        return self._declared.types[name]

    def _variable(self, name: str) -> Evaluate:
        return next(scope[name] for scope in reversed(self._scopes) if name in scope)

    def _select(self, node: Select) -> Plan:
        if node in self._checked.references:
            return self._name(node)
        path = _path(self.plan(node.operand))
        path.add(ConstantQualifier(node.field, is_test=node.is_test))
        return path

    def _index(self, node: Call, reference: CallReference) -> Plan:
        operand, index = map(self.plan, reference.operands)
        path = _path(operand)
        path.add(self._qualifier(node, index, is_optional=reference.function != ast.INDEX))
        return path

    def _qualifier(self, node: Call, index: Plan, *, is_optional: bool) -> Qualifier:
        if isinstance(index, Path):
            return ComputedQualifier(index.resolve, is_optional=is_optional)
        if isinstance(index, PlannedStep):
            return ComputedQualifier(index.evaluate, is_optional=is_optional)
        if not is_key(index.value):
            raise failure(f"invalid qualifier type: {type_of(index.value)}", node, self._checked)
        return ConstantQualifier(index.value, is_optional=is_optional)

    # Calls

    def _call(self, node: Call) -> Plan:
        reference = self._checked.references[node]
        assert isinstance(reference, CallReference)
        form = _FORMS.get(reference.function)
        if form is not None:
            return form(self, node, reference)
        operands: list[Plan] = [self.plan(operand) for operand in reference.operands]
        constant = converted(node, reference, operands, self._checked)
        if constant is not None:
            return constant
        is_known = has_constant_pattern(node, reference, operands, self._checked, self.patterns)
        evaluators = [_evaluator(operand) for operand in operands]
        call = planned_call(reference.overloads, evaluators, self.patterns if is_known else None)
        is_same_always = bool(operands) and all(isinstance(operand, Constant) for operand in operands)
        return PlannedStep(steps.remembered(call) if is_same_always else call)

    def _in(self, node: Call, reference: CallReference) -> Plan:
        del node
        operands: list[Plan] = [self.plan(operand) for operand in reference.operands]
        wanted, container = map(_evaluator, operands)
        folded = membership(reference, operands)
        if isinstance(folded, Constant):
            return folded
        return PlannedStep(planned_call(reference.overloads, [wanted, container]) if folded is None else folded(wanted))

    def _logic(self, node: Call, reference: CallReference) -> Plan:
        del node
        left, right = self._steps(reference)
        return PlannedStep(steps.logic(left, right, decisive=reference.function == ast.OR))

    def _conditional(self, node: Call, reference: CallReference) -> Plan:
        del node
        condition, if_true, if_false = map(self.plan, reference.operands)
        return ConditionalPath(_evaluator(condition), _path(if_true), _path(if_false))

    def _equals(self, node: Call, reference: CallReference) -> Plan:
        del node
        return PlannedStep(steps.equality(*self._steps(reference)))

    def _not_equals(self, node: Call, reference: CallReference) -> Plan:
        del node
        return PlannedStep(steps.inequality(*self._steps(reference)))

    def _not_strictly_false(self, node: Call, reference: CallReference) -> Plan:
        del node
        return PlannedStep(steps.true_unless_false(*self._steps(reference)))

    def _or_else(self, node: Call, reference: CallReference) -> Plan:
        del node
        left, right = self._steps(reference)
        return PlannedStep(steps.or_else(left, right, unwraps=reference.function == "orValue"))

    def _add(self, node: Call, reference: CallReference) -> Plan:
        del node
        left, right = self._steps(reference)
        first, second = reference.operands
        if isinstance(first, Ident) and first.name == ast.ACCUMULATOR and isinstance(second, ListExpr):
            return PlannedStep(steps.appended(left, right))
        return PlannedStep(planned_call(reference.overloads, [left, right]))

    # Aggregates

    def _list(self, node: ListExpr) -> Plan:
        elements = [self.plan(element) for element in node.elements]
        constants = [element.value for element in elements if isinstance(element, Constant)]
        if len(constants) == len(elements) and not node.optionals:
            return Constant(self._folded(node, lambda: List(constants)))
        return PlannedStep(steps.listed([_evaluator(element) for element in elements], node.optionals))

    def _map(self, node: MapExpr) -> Plan:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.is_optional) for entry in node.entries]
        constants = [
            (key.value, value.value)
            for key, value, is_optional in entries
            if isinstance(key, Constant) and isinstance(value, Constant) and not is_optional
        ]
        if len(constants) == len(entries):
            return Constant(self._folded(node, lambda: Map(constants)))
        return PlannedStep(
            steps.mapped([steps.Pair(_evaluator(key), _evaluator(value), opt) for key, value, opt in entries])
        )

    def _folded(self, node: Expr, make: Callable[[], Value]) -> Value:
        try:
            return make()
        except EvalAbortedError as error:
            raise failure(error.message, node, self._checked) from None

    def _message(self, node: MessageExpr) -> Plan:
        message = self._declared.messages[node.type_name.removeprefix(".")]
        fields = [
            steps.FieldStep(field.name, self._step(field.value), field.is_optional, message.conversion(field.name))
            for field in node.fields
        ]
        return PlannedStep(steps.constructed(fields, message.make))

    # Comprehensions

    def _comprehension(self, node: Comprehension) -> Plan:
        return PlannedStep(self._binding(node) if node.is_binding else self._loop(node))

    def _binding(self, node: Comprehension) -> Evaluate:
        self._named_type(node.accumulator, node.start, node)
        slot = self._slot()
        value = self._step(node.start)
        if self._scopes:  # reading one variable may evaluate the one before, and so on
            value = steps.with_room(value)
        self._scopes.append({node.accumulator: steps.bound(slot, value)})
        result = self._step(node.result)
        self._scopes.pop()
        return steps.binding(slot, result)

    def _loop(self, node: Comprehension) -> Evaluate:
        range_ = self._step(node.range_)
        accumulator, first = self._slot(), self._slot()
        second = None if node.second_variable is None else self._slot()
        self._scopes.append({node.accumulator: steps.accumulator(accumulator)})
        variables = {node.variable: steps.variable(first)}
        if node.second_variable is not None and second is not None:
            variables[node.second_variable] = steps.accumulator(second)
        self._scopes.append(variables)
        condition, step = self._step(node.condition), self._step(node.step)
        self._scopes.pop()
        result = self._step(node.result)
        self._scopes.pop()
        slots = (accumulator, first, second)
        return steps.looped(steps.Fold(slots, range_, _start(node.start), condition, step, result))


def _start(node: Expr) -> Callable[[], Value]:
    """A factory of the initial value of an accumulator."""
    if isinstance(node, ListExpr):
        return GrowingList
    if isinstance(node, MapExpr):
        return GrowingMap
    assert isinstance(node, Literal)
    value = node.value
    return lambda: value


_FORMS: Final[Mapping[str, Callable[[_Planner, Call, CallReference], Plan]]] = {
    ast.ADD: _Planner._add,  # noqa: SLF001 - the tables of the class's own methods
    ast.AND: _Planner._logic,  # noqa: SLF001
    ast.CONDITIONAL: _Planner._conditional,  # noqa: SLF001
    ast.EQUALS: _Planner._equals,  # noqa: SLF001
    ast.IN: _Planner._in,  # noqa: SLF001
    ast.INDEX: _Planner._index,  # noqa: SLF001
    ast.NOT_EQUALS: _Planner._not_equals,  # noqa: SLF001
    ast.NOT_STRICTLY_FALSE: _Planner._not_strictly_false,  # noqa: SLF001
    ast.OPTIONAL_INDEX: _Planner._index,  # noqa: SLF001
    ast.OPTIONAL_SELECT: _Planner._index,  # noqa: SLF001
    ast.OR: _Planner._logic,  # noqa: SLF001
    "or": _Planner._or_else,  # noqa: SLF001
    "orValue": _Planner._or_else,  # noqa: SLF001
}
_PLANS: Final[Mapping[type, Callable[..., Plan]]] = {
    Literal: _Planner._literal,  # noqa: SLF001
    Ident: _Planner._name,  # noqa: SLF001
    Select: _Planner._select,  # noqa: SLF001
    Call: _Planner._call,  # noqa: SLF001
    ListExpr: _Planner._list,  # noqa: SLF001
    MapExpr: _Planner._map,  # noqa: SLF001
    MessageExpr: _Planner._message,  # noqa: SLF001
    Comprehension: _Planner._comprehension,  # noqa: SLF001
}
