"""Static results of plugins for pods of one signature, for all nodes; kept by `decision.signatures`."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocator.bits import Mask
from scheduler.core_v1.pod import Pod
from scheduler.state.labels import Domains
from scheduler.state.masks import Flags, Numbers

NO_NODE, NOT_NAMED = 1 << 14, 1 << 13
"""In place of filters' bits: no node has the number, or it is none of those that the pod names."""

MOST_DOMAINS = 16
"""Sets of domains that a signature keeps: pods of one have one or two; beyond, all are computed again."""

_NO_NUMBERS: Numbers = np.zeros(0, np.int64)


@dataclass(slots=True, eq=False)
class PodSignature:
    """What holds for all pods of a signature."""

    pod: Pod
    filters: int
    """How many static filters there are."""
    honored: Mapping[str, int]
    """By name, the bits of filters that PodTopologySpread honors: of further ones, where they refuse nothing."""
    counts: dict[str, Numbers]
    """By plugin and node number, what counts for its score."""
    refusals: NDArray[np.int16]
    """By node number, one bit for each filter that refuses the node, or would."""
    allowed: Mask = 0
    """The nodes that every static filter lets pass."""
    counting: frozenset[str] = frozenset()
    """The plugins to which anything counts."""
    alike: int | None = None
    """What the others add to the total of each node, None until requested."""
    stale: set[int] = field(default_factory=set)
    """Numbers of nodes to be looked at."""
    refused_by: Sequence[Mask] | None = None
    """For each filter, the nodes that it is the first to refuse."""
    by_text: Mapping[str, Mask] | None = None
    """All that are not allowed, by what keeps the pods from them. Both are None until requested."""
    counted_domains: dict[Hashable, tuple[int, Domains]] = field(default_factory=dict)
    """The domains of nodes that pods are spread over, until a node changes (`domains_within`)."""

    def counts_of(self, plugin: str, nodes: Numbers) -> Numbers:
        """What counts for the plugin's score, of these nodes; nothing where pod and node alone count nothing."""
        counts = self.counts.get(plugin)
        return _NO_NUMBERS if counts is None else counts[nodes]

    @property
    def refusing(self) -> int:
        """The bits of which one is enough to refuse a node."""
        return (1 << self.filters) - 1 | NO_NODE | NOT_NAMED

    def first_refused_by(self, position: int) -> Flags:
        """The nodes that the filter at this position refuses, and none before it."""
        bit = 1 << position
        first: Flags = (self.refusals & (2 * bit - 1 | NO_NODE | NOT_NAMED)) == bit
        return first

    def refused_by_filter(self, position: int) -> Flags:
        """The nodes that the filter at this position refuses, whatever others say."""
        refused: Flags = self.refusals & (1 << position | NOT_NAMED) != 0
        return refused

    def domains_within(self, key: Hashable, version: int, find: Callable[[], Domains]) -> Domains:
        """What was found for the key, as of the version and of what filters say of nodes; else it is computed again."""
        known = self.counted_domains.get(key)
        if known is None or known[0] != version:
            if len(self.counted_domains) >= MOST_DOMAINS:
                self.counted_domains.clear()
            known = self.counted_domains[key] = version, find()
        return known[1]

    def passed(self, plugin: str, size: int) -> Flags:
        """The nodes that the filter lets pass, whatever others say; `size` flags."""
        refused = self.refusals & (self.honored[plugin] | NO_NODE | NOT_NAMED) != 0
        passed: Flags = ~np.pad(refused, (0, size - len(refused)), constant_values=True)
        return passed
