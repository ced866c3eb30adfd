"""A policy that a user brings: its class is loaded, and held to the contract at each call."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from math import isnan, nan
from operator import index
from traceback import extract_tb
from typing import TypeVar

from allocator.bits import Mask
from allocator.features.contract import NodeAttempt
from allocator.outcome import AllocationError, PolicyFailed
from allocator.policies.contract import Policy, PricedOrder, Requests, Score
from allocator.policies.whole_nodes import FreeResources, NodePolicy, PodNeeds, UnitPick
from allocator.search.backtracking import Order
from allocator.search.rules import DeviceSlot, Pick
from cel import Cancelled

# A policy class of the user's, named as `MODULE:CLASS`.
#
# The module is imported from Python's own path, and the class is called without arguments. Whatever is wrong with
# either is reported in the words of the option; what is raised in the class names the error.


_METHODS = ("order", "score")


class UnusableClass(ValueError):
    """There is no such class, or it is not a policy."""


def names_a_class(text: str) -> bool:
    """Whether the text is of the form `MODULE:CLASS`, whether or not they exist."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def policy_of_class(text: str) -> Policy:
    """A policy of the class. Raises UnusableClass."""
    module, _, name = text.partition(":")
    value: object = _module(module)
    for part in name.split("."):
        if not hasattr(value, part):
            raise UnusableClass(f"{text}: module {module} has no {name}")
        value = getattr(value, part)
    if not isinstance(value, type):
        raise UnusableClass(f"{text} is not a class, but {type(value).__name__}")
    return _checked(text, _made(text, value))


def _module(name: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise UnusableClass(f"module {name} cannot be imported: {error}") from error
        raise UnusableClass(
            f"module {name} was not found: install it, or add the folder that holds it to PYTHONPATH"
        ) from error
    except (Exception, SystemExit) as error:
        raise UnusableClass(f"module {name} cannot be imported: {type(error).__name__}: {error}") from error


def _made(text: str, found: type) -> object:
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise UnusableClass(f"{text}() failed: {type(error).__name__}: {error}") from error


def _checked(text: str, policy: object) -> Policy:
    name, reads = getattr(policy, "name", None), getattr(policy, "reads", None)
    if not isinstance(name, str) or not name:
        raise UnusableClass(f"{text} is not a policy: name must be a text, not {name!r}")
    if isinstance(reads, str) or not isinstance(reads, Sequence) or not all(isinstance(one, str) for one in reads):
        raise UnusableClass(f"{text} is not a policy: reads must be a list of attributes, not {reads!r}")
    for method in _METHODS:
        if not callable(getattr(policy, method, None)):
            raise UnusableClass(f"{text} is not a policy: it has no method {method}")
    return policy  # type: ignore[return-value]  # all that the protocol says was looked at


# A user's policy with every failure of its code as a `PolicyFailed`, which says what failed and where.
#
# A failure is whatever is raised, an attempt to end the program, or a value that is none of those that a policy
# returns.


T = TypeVar("T")


def guarded(policy: Policy) -> Policy:
    """The policy; what it does raises AllocationError or Cancelled alone."""
    return GuardedNodePolicy(policy) if isinstance(policy, NodePolicy) else GuardedPolicy(policy)


class GuardedPolicy:
    """A policy that looks at devices."""

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.reads: Sequence[str] = tuple(policy.reads)
        self._policy = policy

    def order(self, attempt: NodeAttempt, requests: Requests) -> Order | None:
        """That of the policy."""
        order = _called(self._policy, "order", lambda: _function(self._policy.order(attempt, requests)))
        if order is None:
            return None
        guarded_order = _guarded_order(self._policy, order)
        return PricedOrder(guarded_order, order.effort) if isinstance(order, PricedOrder) else guarded_order

    def score(self, attempt: NodeAttempt, requests: Requests, picks: Sequence[Pick]) -> Score:
        """That of the policy."""
        return _called(self._policy, "score", lambda: _numbers(self._policy.score(attempt, requests, picks)))


class GuardedNodePolicy(NodePolicy):
    """A policy that looks at nodes."""

    def __init__(self, policy: NodePolicy) -> None:
        self.name = policy.name
        self.reads = tuple(policy.reads)
        self.remembers = policy.remembers
        self.reads_names = policy.reads_names
        self.reads_holds = policy.reads_holds
        self._policy = policy

    def score_node(self, needs: PodNeeds, free: FreeResources) -> float:
        """That of the policy."""
        return _called(self._policy, "score_node", lambda: _number(self._policy.score_node(needs, free)))

    def picks(self, needs: PodNeeds, free: FreeResources) -> Sequence[UnitPick]:
        """Those of the policy."""
        return _called(self._policy, "picks", lambda: _units(self._policy.picks(needs, free), len(free.units)))


def _guarded_order(policy: Policy, order: Order) -> Order:
    def guarded_order(slot: DeviceSlot, domain: Mask, picks: Sequence[Pick]) -> Iterable[int]:
        devices = _called(policy, "order", lambda: _iterator(order(slot, domain, picks)))
        while (device := _called(policy, "order", lambda: _next_device(devices))) is not None:
            yield device

    return guarded_order


def _function(order: Order | None) -> Order | None:
    if order is not None and not callable(order):
        raise _Wrong(order, "a function or None")
    return order


def _iterator(devices: object) -> Iterator[object]:
    if not isinstance(devices, Iterable):
        raise _Wrong(devices, "a list of devices")
    return iter(devices)


def _next_device(devices: Iterator[object]) -> int | None:
    for device in devices:
        if isinstance(device, bool) or not hasattr(device, "__index__") or index(device) < 0:
            raise _Wrong(device, "the position of a device")
        return index(device)
    return None


def _numbers(values: object) -> Score:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise _Wrong(values, "a tuple of numbers")
    return tuple(map(_number, values))


def _number(value: object) -> float:
    try:
        number = nan if isinstance(value, str | bytes) else float(value)  # type: ignore[arg-type]  # of any library
    except (TypeError, ValueError):
        number = nan
    if isnan(number):
        raise _Wrong(value, "a number")
    return number


def _units(picks: object, units: int) -> Sequence[UnitPick]:
    unit_picks = tuple(picks) if isinstance(picks, Iterable) else (picks,)
    for pick in unit_picks:
        if not isinstance(pick, UnitPick) or not 0 <= pick.unit < units:
            raise _Wrong(pick, f"a UnitPick of {units} units")
    return unit_picks


class _Wrong(Exception):
    """A value that is not what is expected."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"returned {value!r:.80}, which is not {expected}")


def _called(policy: Policy, method: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except (AllocationError, Cancelled):  # of what the policy asks the allocator for
        raise
    except _Wrong as error:
        raise PolicyFailed(f"policy {policy.name} failed: {_begin(policy, method)}{method}: {error}") from error
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise PolicyFailed(
            f"policy {policy.name} failed: {_own_line(error) or _begin(policy, method)}{method}: {text}"
        ) from error


def _begin(policy: Policy, method: str) -> str:
    """Where the method begins; empty where it is not Python."""
    code = getattr(getattr(policy, method), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code else ""


def _own_line(error: BaseException) -> str:
    """The last line of the policy's own file that the error has come through; empty where it is not Python."""
    frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename != _THIS]
    own_frames = [frame for frame in frames if frame.filename == frames[0].filename]
    return f"{own_frames[-1].filename}:{own_frames[-1].lineno}: " if own_frames else ""


_THIS = guarded.__code__.co_filename
