"""Taints: the published slices with those of DeviceTaintRules in force, and which taints make pods go, and when.

A changed rule only affects the slices that it selects, before or after. Pools in which an unreadable claim may hold any
device are withheld from the fleet.
A pod goes at once where its tolerations do not match a NoExecute taint, and later where one that matches ends
(`tolerationSeconds`, counted from the taint). What tolerates a taint of a device are the tolerations of the allocated
request, of which those of effect NoExecute count, and from 1.38 on those without effect, as in Kubernetes' controller.
Source: KEP-5055, feature gate DRADeviceTaintRules; pkg/controller/devicetainteviction and pkg/controller/tainteviction
of kube-controller-manager.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import attrgetter, is_, itemgetter

from allocator.api import TaintRule
from allocator.features.device_taints import tolerates
from allocator.fleet.fleet import Fleet
from allocator.gates import Release
from allocator.model import Claim, Device, DeviceID, DeviceResult, Node, PoolID, Slice, Taint, Toleration
from scheduler.core_v1.pod import Pod

# DeviceTaintRules: their taints on the devices that they select, as if the driver had published them.
#
# Source: KEP-5055, DeviceTaintRule.


def tainted(slices: Sequence[Slice], rules: Sequence[TaintRule]) -> list[Slice]:
    """The slices with the taints of the rules on their devices; those that no rule touches are the same objects."""
    by_selected = _RulesBySelected()
    for place, rule in enumerate(rules):
        by_selected.add(place, rule)
    return [by_selected.on(slice_) for slice_ in slices]


_ByDevice = dict[str | None, dict[int | str, TaintRule]]
"""Rules by the device that they select, None for all; these by their place in the order of their taints."""


class _RulesBySelected:
    """Rules by what they select: a slice finds its own, however many there are of others."""

    def __init__(self) -> None:
        self._by_pool: dict[tuple[str | None, str | None], _ByDevice] = {}

    def add(self, place: int | str, rule: TaintRule) -> None:
        """The rule is in force. place: in the order of the taints of a device."""
        if (selector := rule.selector) is not None:
            of_pool = self._by_pool.setdefault((selector.driver, selector.pool), {})
            of_pool.setdefault(selector.device, {})[place] = rule

    def remove(self, place: int | str, rule: TaintRule) -> None:
        """The rule, which was added with that place, is in force no more."""
        if (selector := rule.selector) is None:
            return
        key = selector.driver, selector.pool
        of_device = self._by_pool[key][selector.device]
        del of_device[place]
        if not of_device:
            del self._by_pool[key][selector.device]
        if not self._by_pool[key]:
            del self._by_pool[key]

    def on(self, slice_: Slice) -> Slice:
        """The slice with the taints of the rules; the same one where none selects a device of it.

        Cost: O(devices, and rules that select them).
        """
        pools = [(driver, pool) for driver in (None, slice_.driver) for pool in (None, slice_.pool)]
        selecting = [self._by_pool[key] for key in pools if key in self._by_pool]
        if not selecting:
            return slice_
        devices = tuple([_tainted(device, selecting) for device in slice_.devices])
        return slice_ if all(map(is_, devices, slice_.devices)) else replace(slice_, devices=devices)


def _tainted(device: Device, selecting: Iterable[_ByDevice]) -> Device:
    ours: dict[int | str, TaintRule] = {}
    for by_device in selecting:
        for name in (None, device.name):
            ours.update(by_device.get(name, {}))
    if not ours:
        return device
    return replace(device, taints=(*device.taints, *[rule.taint for _, rule in sorted(ours.items(), key=_place)]))


_place = itemgetter(0)


def _may_select(rule: TaintRule, slice_: Slice) -> bool:
    """False where the rule selects no device of the slice, whatever their names."""
    selector = rule.selector
    if selector is None:
        return False
    return selector.driver in (None, slice_.driver) and selector.pool in (None, slice_.pool)


class TaintedSlices:
    """The slices by name. has_rules: the gate is on; where it is off, rules change nothing."""

    def __init__(self, fleet: Fleet, *, has_rules: bool) -> None:
        self._fleet = fleet
        self._has_rules = has_rules
        self._rules: dict[str, TaintRule] = {}
        self._by_selected = _RulesBySelected()
        self._published: dict[str, Slice] = {}
        self._given: dict[str, Slice] = {}
        self._left_alone: dict[str, tuple[PoolID, ...]] = {}

    @property
    def given(self) -> Mapping[str, Slice]:
        """The slices by name, as the fleet has them."""
        return self._given

    def set(self, slice_: Slice) -> None:
        """The slice is published, or has changed."""
        self._published[slice_.name] = slice_
        self._give(slice_)

    def remove(self, name: str) -> None:
        """The slice is gone. Raises KeyError where it was not there."""
        del self._published[name]
        self._take_back(name)

    def set_rule(self, rule: TaintRule) -> bool:
        """The rule is there, or has changed. Whether a device has other taints now.

        Cost: O(devices of the pool that it selects); O(slices) looks where it does not name one.
        """
        return self._replace_rule(self._rules.get(rule.name), rule)

    def remove_rule(self, name: str) -> bool:
        """The rule is gone, if it was there. Whether a device has other taints now."""
        return self._replace_rule(self._rules.get(name), None)

    def _replace_rule(self, old: TaintRule | None, new: TaintRule | None) -> bool:
        if old == new:
            return False  # as kube-controller-manager writes to its status
        if old is not None:
            del self._rules[old.name]
            self._by_selected.remove(old.name, old)
        if new is not None:
            self._rules[new.name] = new
            self._by_selected.add(new.name, new)
        if not self._has_rules:
            return False
        touched = {one.name: one for rule in (old, new) if rule for one in self._selected_by(rule)}
        return bool([slice_ for slice_ in touched.values() if self._give(slice_)])

    def _selected_by(self, rule: TaintRule) -> list[Slice]:
        """The slices of which it may select devices, but for those that are left alone."""
        selector = rule.selector
        if selector is None or selector.driver is None or selector.pool is None:
            return [slice_ for slice_ in self._published.values() if _may_select(rule, slice_)]
        given = self._fleet.slices.by_pool.get(PoolID(selector.driver, selector.pool), ())
        return [self._published[slice_.name] for slice_ in given]

    def leave_alone(self, claim_uid: str, pools: tuple[PoolID, ...]) -> None:
        """The claim has unknown devices of these pools; a pool without a name: any of the driver's.

        It replaces what was said for the claim before.
        """
        before = self._left_alone.pop(claim_uid, ())
        if pools:
            self._left_alone[claim_uid] = pools
        if before != pools:
            for slice_ in list(self._published.values()):
                self._give(slice_)

    def _is_left_alone(self, slice_: Slice) -> bool:
        named = {PoolID(slice_.driver, slice_.pool), PoolID(slice_.driver, "")}
        return any(not named.isdisjoint(pools) for pools in self._left_alone.values())

    def _take_back(self, name: str) -> None:
        given = self._given.pop(name, None)
        if given is not None:
            self._fleet.remove_slice(given)

    def _give(self, slice_: Slice) -> bool:
        """Let the fleet have the slice as it is now, in place of what it has. Whether that is another one."""
        if self._is_left_alone(slice_):
            self._take_back(slice_.name)
            return False
        now = self._by_selected.on(slice_) if self._has_rules else slice_
        old = self._given.get(slice_.name)
        if old is not None:
            if old == now:
                return False
            self._fleet.remove_slice(old)
        self._given[slice_.name] = now
        self._fleet.add_slice(now)
        return True


NO_EXECUTE = "NoExecute"

Tainted = str | DeviceID
"""A node by its name, or a device."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that has to leave its node at a time. cause: why, as a sentence without a full stop."""

    pod: Pod
    time_s: float
    cause: str


_time: Callable[[Eviction], float] = attrgetter("time_s")


class EvictingTaints:
    """The taints by what has them. Each is from a source: a node, or a slice, by name. release: of who evicts."""

    def __init__(self, release: Release) -> None:
        self._lasting_effects = {NO_EXECUTE, ""} if release.empty_effect_tolerates_eviction else {NO_EXECUTE}
        self._evicts_for_extended = release.evicts_for_extended_resources
        self._since: dict[Tainted, dict[tuple[str, Taint], float]] = {}
        self._of_source: dict[str, set[Tainted]] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def see_node(self, node: Node, now: float) -> bool:
        """The node is there, or has changed. True where its taints have."""
        return bool(self._see(f"node/{node.name}", {node.name: _evicting(node.taints)}, now))

    def forget_node(self, name: str) -> None:
        """The node is gone."""
        self._see(f"node/{name}", {}, 0.0)

    def see_slice(self, name: str, found: Slice | None, now: float) -> set[Tainted]:
        """The slice with that name, or that it is gone. The answer is the devices whose taints have changed."""
        listed = found.devices if found else ()
        devices: dict[Tainted, Sequence[Taint]] = {one.id: _evicting(one.taints) for one in listed}
        return self._see(f"slice/{name}", devices, now)

    def _see(self, source: str, taints: Mapping[Tainted, Sequence[Taint]], now: float) -> set[Tainted]:
        now_tainted = {key for key, found in taints.items() if found}
        changed = set[Tainted]()
        for key in self._of_source.get(source, set()) | now_tainted:
            before = self._since.get(key, {})
            after = {one: since for one, since in before.items() if one[0] != source}
            after |= {(source, taint): before.get((source, taint), now) for taint in taints.get(key, ())}
            if after != before:
                changed.add(key)
            self._since[key] = after
            if not after:
                del self._since[key]
        if now_tainted:
            self._of_source[source] = now_tainted
        else:
            self._of_source.pop(source, None)
        return changed

    def end(
        self, pod: Pod, node: str, claims: Iterable[Claim], of_extended: Iterable[Claim], bound_s: float = -inf
    ) -> "Eviction | None":
        """When and why the pod has to leave the node, None if it may stay.

        Taints of its devices always count, taints of its node only if they have come since it was bound.
        claims: that its spec names. of_extended: made for its extended resources; up to 1.36 their taints evict
        nobody (kubernetes/kubernetes#141290).
        """
        on_node = self._ends(f"node {node}", node, pod.tolerations, _first_s, bound_s)
        of_devices = (
            end
            for claim in (*claims, *(of_extended if self._evicts_for_extended else ()))
            for result in _results([claim])
            if result.id in self._since
            for end in self._ends(f"device {result.id} of claim {claim}", result.id, self._lasting(result), _least_s)
        )
        return min((Eviction(pod, *end) for end in (*on_node, *of_devices)), key=_time, default=None)

    def _lasting(self, result: DeviceResult) -> Sequence[Toleration]:
        return [one for one in result.tolerations if one.effect in self._lasting_effects]

    def _ends(
        self, what: str, key: Tainted, tolerations: Sequence[Toleration], rule: "_Rule", after_s: float = -inf
    ) -> Iterator[tuple[float, str]]:
        """Times, with why."""
        for (_, taint), since in self._since.get(key, {}).items():
            if since > after_s and (seconds := _tolerated_s(tolerations, taint, rule)) is not None:
                tolerated = f", which it tolerates for {seconds:g} s" if seconds else ""
                yield since + seconds, f"{what} has the taint {taint}{tolerated}"


def devices_of(claims: Iterable[Claim]) -> Iterator[DeviceID]:
    """The devices that the claims have."""
    return (one.id for one in _results(claims))


def _results(claims: Iterable[Claim]) -> Iterator[DeviceResult]:
    return (one for claim in claims if claim.allocation for one in claim.allocation.results)


def has_evicting(found: Slice) -> bool:
    """Whether a device of the slice has such a taint. Cost: O(devices)."""
    return any(_evicting(device.taints) for device in found.devices)


def _evicting(taints: Sequence[Taint]) -> Sequence[Taint]:
    return [taint for taint in taints if taint.effect == NO_EXECUTE]


_Rule = Callable[[Sequence[float]], float]
"""For how long tolerations of a taint hold together, of which each holds for so long, `inf` for ever."""


def _first_s(limits: Sequence[float]) -> float:
    """For a taint of a node: kube-controller-manager looks at no toleration after the first that matches."""
    return limits[0]


def _least_s(limits: Sequence[float]) -> float:
    """For a taint of a device: one that holds for ever is enough, and otherwise the shortest counts."""
    return inf if inf in limits else min(limits)


def _tolerated_s(tolerations: Sequence[Toleration], taint: Taint, rule: _Rule) -> float | None:
    """For how long the taint is tolerated: 0 if it is not, None for ever."""
    limits = [_limit_s(one) for one in tolerations if tolerates([one], taint)]
    seconds = rule(limits) if limits else 0.0
    return None if seconds == inf else seconds


def _limit_s(toleration: Toleration) -> float:
    seconds = toleration.raw.get("tolerationSeconds")
    return max(0.0, float(seconds)) if isinstance(seconds, int) else inf
