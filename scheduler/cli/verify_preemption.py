"""What a recorded case says of preemption: kube-scheduler's PostFilter, and who could go for devices.

`postFilter` is what kube-scheduler, which never preempts for devices, answered and wrote. `preemption` holds the nodes
that can be won with devices, as docs/differences.md says, found by trying all there is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from scheduler.cli.recorded import InvalidCase, field_of, list_of, objects_of, of_kind
from scheduler.kinds import Raw
from scheduler.preemption.eviction_writes import PreemptionWrite
from scheduler.preemption.preemption import NodeToWin, Preemption

_SUCCESS, _REFUSED, _ERROR = "Success", "Unschedulable", "Error"
WriteCall = tuple[str, str, str]
"""Verb, pod and patch."""


@dataclass(frozen=True, slots=True)
class PostFilterAnswer:
    """kube-scheduler's answer, or ours."""

    code: str
    nominated: str | None
    """None where that stays."""
    text: str
    victims: frozenset[str]
    writes: Sequence[WriteCall]
    """All but those of times, sorted."""
    alternatives: Sequence[tuple[str, frozenset[str]]] = ()
    """Nodes and victims that are as good."""

    @staticmethod
    def recorded(raw: Raw) -> "PostFilterAnswer":
        """The answer that a case holds. Raises InvalidCase."""
        writes = sorted(map(_recorded_write, objects_of(raw, "writes")))
        nominated = of_kind(raw["nominated"], "nominated", str) if "nominated" in raw else None
        return PostFilterAnswer(
            field_of(raw, "code", str),
            nominated,
            ", ".join(map(str, list_of(raw, "reasons"))),
            frozenset(name for verb, name, _ in writes if verb == "delete"),
            writes,
            [
                (field_of(one, "nominated", str), frozenset(list_of(one, "victims")))
                for one in objects_of(raw, "alternatives")
            ],
        )

    @staticmethod
    def of(found: Preemption) -> "PostFilterAnswer":
        """Ours."""
        writes = sorted((*_write(one),) for one in found.writes)
        victims = frozenset(one.pod.name for one in found.writes if one.is_delete)
        code = _SUCCESS if found.candidate is not None else _REFUSED
        return PostFilterAnswer(code, found.nominated, found.text, victims, writes)

    def differences(self, ours: "PostFilterAnswer | None") -> Iterator[str]:
        """Where ours is another answer; None where nothing was asked, since no pod's end could help."""
        if self.code == _ERROR or ours is None:
            if ours is not None or self.victims:
                yield f"postFilter: expected {self.code}, got {ours.code if ours else 'none'}"
            return
        is_as_good = (ours.nominated or "", ours.victims) in self.alternatives
        for name in ("code", "nominated", "victims", "writes"):
            theirs, own = getattr(self, name), getattr(ours, name)
            if theirs != own and not is_as_good:
                yield f"postFilter {name}: expected {_shown(theirs)}, got {_shown(own)}"
        if self.text != ours.text:
            yield f"postFilter: expected {self.text!r}, got {ours.text!r}"


@dataclass(frozen=True, slots=True)
class WonNodes:
    """Who could go for devices. nodes: those that are equally good. victims: by each of them; candidates: of all."""

    nodes: frozenset[str]
    victims: Mapping[str, frozenset[str]]
    candidates: Mapping[str, frozenset[str]]

    @staticmethod
    def recorded(raw: Raw) -> "WonNodes":
        """What a case holds. Raises InvalidCase."""
        return WonNodes(frozenset(list_of(raw, "nodes")), _by_node(raw, "victims"), _by_node(raw, "candidates"))

    @staticmethod
    def of(found: Preemption) -> "WonNodes":
        """Ours."""
        equal = found.equal
        return WonNodes(frozenset(one.node for one in equal), _names(equal), _names(found.candidates))

    def differences(self, ours: "WonNodes | None") -> Iterator[str]:
        """Where ours is another answer; None where nothing was asked."""
        for name in ("nodes", "victims", "candidates"):
            theirs, own = getattr(self, name), getattr(ours, name) if ours else _NOTHING[name]
            if theirs != own:
                yield f"preemption {name}: expected {_shown(theirs)}, got {_shown(own)}"


_NOTHING: Mapping[str, object] = {"nodes": frozenset(), "victims": {}, "candidates": {}}


def _by_node(raw: Raw, name: str) -> Mapping[str, frozenset[str]]:
    by_node = of_kind(raw.get(name) or {}, name, dict)
    return {node: frozenset(of_kind(victims, f"{name} of {node}", list)) for node, victims in by_node.items()}


def _names(candidates: Iterable[NodeToWin]) -> Mapping[str, frozenset[str]]:
    return {one.node: frozenset(pod.name for pod in one.pods) for one in candidates}


def _recorded_write(raw: Raw) -> WriteCall:
    verb = field_of(raw, "verb", str)
    if verb not in ("patch", "delete"):
        raise InvalidCase(f"writes: nothing is known of verb {verb}")
    return verb, field_of(raw, "name", str), _text(raw.get("patch"))


def _write(one: PreemptionWrite) -> WriteCall:
    return "delete" if one.is_delete else "patch", one.pod.name, _text(one.patch)


def _text(patch: Any) -> str:  # Any: JSON
    return orjson.dumps(patch, option=orjson.OPT_SORT_KEYS).decode() if patch is not None else ""


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "none"
    if isinstance(value, Mapping):
        return "; ".join(f"{node}: {_shown(victims)}" for node, victims in sorted(value.items())) or "none"
    return repr(value)
