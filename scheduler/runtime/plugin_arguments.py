"""Arguments of plugins, by their field names in KubeSchedulerConfiguration, and the plugins made from them.

Arguments that this program does not implement are not fields here, and so are errors that name them.
Source: kube-scheduler's apis/config/v1 types_pluginargs.go, defaults.go, validation_pluginargs.go.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from allocator.api import names
from allocator.model import NodeSelector, Requirement, Term
from scheduler.core_v1.label_selectors import DO_NOT_SCHEDULE, SpreadConstraint
from scheduler.core_v1.pod import Preference
from scheduler.plugins.inter_pod_affinity import HARD_POD_AFFINITY_WEIGHT, inter_pod_affinity
from scheduler.plugins.node_affinity import node_affinity_plugins
from scheduler.plugins.node_resources_balanced_allocation import node_resources_balanced_allocation
from scheduler.plugins.node_resources_fit import Ignored, node_resources_fit
from scheduler.plugins.plugin import Plugin
from scheduler.plugins.pod_topology_spread import SYSTEM_DEFAULTS, DefaultConstraints, pod_topology_spread
from scheduler.plugins.scoring_strategies import (
    CPU_AND_MEMORY,
    MAX_SHAPE_SCORE,
    MAX_UTILIZATION,
    ScoringStrategy,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from scheduler.plugins.volume_binding import MOST_FREE, volume_binding
from scheduler.runtime.section import Section, refused

Weight = Annotated[int, Field(ge=0, le=100)]
"""0 stands for 1, as it does in kube-scheduler."""


def _label_key(key: str) -> str:
    if problem := names.label_key(key):
        raise refused(problem)
    return key


def _group(name: str) -> str:
    if "/" in name:
        raise refused("must be the part before the slash")
    return _label_key(name)


LabelKey = Annotated[str, AfterValidator(_label_key)]


class Arguments(Section, ABC):
    """Of one plugin. apiVersion and kind may stand there, as in KubeSchedulerConfiguration."""

    api_version: Literal["", "kubescheduler.config.k8s.io/v1"] = ""
    kind: str = ""

    @abstractmethod
    def plugins(self) -> Sequence[Plugin]:
        """The plugin with these arguments, which may be several values."""


class _ResourceSpec(Section):
    name: str = Field(min_length=1)
    weight: Weight = 1


def _weights(resources: Sequence[_ResourceSpec]) -> Mapping[str, int]:
    return {one.name: one.weight or 1 for one in resources} or CPU_AND_MEMORY


def _once(resources: list[_ResourceSpec]) -> list[_ResourceSpec]:
    names_ = [one.name for one in resources]
    if twice := next((name for name in names_ if names_.count(name) > 1), ""):
        raise refused(f"must name {twice} once")
    return resources


Resources = Annotated[list[_ResourceSpec], AfterValidator(_once)]


class _UtilizationPoint(Section):
    utilization: int = Field(ge=0, le=MAX_UTILIZATION)
    score: int = Field(ge=0, le=MAX_SHAPE_SCORE)


def _rising(shape: list[_UtilizationPoint]) -> list[_UtilizationPoint]:
    if any(one.utilization >= other.utilization for one, other in pairwise(shape)):
        raise refused("must be sorted by utilization, with no two points at the same")
    return shape


_Shape = Annotated[list[_UtilizationPoint], AfterValidator(_rising)]


def _points(shape: _Shape) -> Sequence[tuple[int, int]]:
    return [(one.utilization, one.score) for one in shape]


class _RequestedToCapacityRatio(Section):
    shape: Annotated[_Shape, Field(min_length=1)]


class _ScoringStrategyFields(Section):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    resources: Resources = Field(default_factory=list)
    requested_to_capacity_ratio: _RequestedToCapacityRatio | None = None

    @model_validator(mode="after")
    def _matches_its_type(self) -> Self:
        needs_points = self.type == "RequestedToCapacityRatio"
        if needs_points is not (self.requested_to_capacity_ratio is not None):
            raise refused("must have requestedToCapacityRatio if type is RequestedToCapacityRatio, and only then")
        return self

    def strategy(self) -> ScoringStrategy:
        """As the plugin takes it."""
        weights = _weights(self.resources)
        if self.requested_to_capacity_ratio:
            return requested_to_capacity_ratio(_points(self.requested_to_capacity_ratio.shape), weights)
        return most_allocated(weights) if self.type == "MostAllocated" else least_allocated(weights)


class NodeResourcesFitArgs(Arguments):
    """How nodes are scored by their resources, and which resources they need not have."""

    ignored_resources: list[LabelKey] = Field(default_factory=list)
    ignored_resource_groups: list[Annotated[str, AfterValidator(_group)]] = Field(default_factory=list)
    scoring_strategy: _ScoringStrategyFields | None = None

    def plugins(self) -> Sequence[Plugin]:
        """The plugin with these arguments."""
        ignored = Ignored(frozenset(self.ignored_resources), frozenset(self.ignored_resource_groups))
        strategy = self.scoring_strategy.strategy() if self.scoring_strategy else least_allocated()
        return (node_resources_fit(strategy, ignored),)


class _Balanced(Section):
    name: str = Field(min_length=1)
    weight: Annotated[int, Field(ge=0, le=1)] = 1


class NodeResourcesBalancedAllocationArgs(Arguments):
    """Whose balance counts. The weight of each is 1."""

    resources: list[_Balanced] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        if len({one.name for one in self.resources}) < len(self.resources):
            raise refused("must name each resource once")
        return self

    def plugins(self) -> Sequence[Plugin]:
        """The plugin with these arguments."""
        return (node_resources_balanced_allocation([one.name for one in self.resources] or list(CPU_AND_MEMORY)),)


class InterPodAffinityArgs(Arguments):
    """What terms of pods on nodes count in scores."""

    hard_pod_affinity_weight: int = Field(default=HARD_POD_AFFINITY_WEIGHT, ge=0, le=100)
    ignore_preferred_terms_of_existing_pods: bool = False

    def plugins(self) -> Sequence[Plugin]:
        """The plugin with these arguments."""
        ignores = self.ignore_preferred_terms_of_existing_pods
        return (inter_pod_affinity(self.hard_pod_affinity_weight, ignore_preferred_terms_of_existing_pods=ignores),)


class _TopologySpreadConstraint(Section):
    max_skew: int = Field(ge=1)
    topology_key: LabelKey
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: int | None = Field(default=None, ge=1)
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"

    @model_validator(mode="after")
    def _min_domains_is_for_hard_ones(self) -> Self:
        if self.min_domains is not None and self.when_unsatisfiable != DO_NOT_SCHEDULE:
            raise refused("must not have minDomains unless whenUnsatisfiable is DoNotSchedule")
        return self

    def constraint(self) -> SpreadConstraint:
        """As the plugin takes it."""
        is_hard = self.when_unsatisfiable == DO_NOT_SCHEDULE
        honors_affinity, honors_taints = self.node_affinity_policy == "Honor", self.node_taints_policy == "Honor"
        least = self.min_domains or 1
        return SpreadConstraint(self.max_skew, self.topology_key, (), is_hard, least, honors_affinity, honors_taints)


class PodTopologySpreadArgs(Arguments):
    """What spreads pods that do not say how."""

    default_constraints: list[_TopologySpreadConstraint] = Field(default_factory=list)
    defaulting_type: Literal["", "System", "List"] = "System"

    @model_validator(mode="after")
    def _constraints_agree(self) -> Self:
        if self.default_constraints and self.defaulting_type != "List":
            raise refused("must have defaultingType List, since there are defaultConstraints")
        seen = {(one.topology_key, one.when_unsatisfiable) for one in self.default_constraints}
        if len(seen) < len(self.default_constraints):
            raise refused("must not have two defaultConstraints of one topologyKey and whenUnsatisfiable")
        return self

    def plugins(self) -> Sequence[Plugin]:
        """The plugin with these arguments."""
        listed = DefaultConstraints([one.constraint() for one in self.default_constraints])
        return (pod_topology_spread(listed if self.defaulting_type == "List" else SYSTEM_DEFAULTS),)


class _NodeSelectorRequirement(Section):
    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_its_values(self) -> Self:
        is_wrong = {
            "In": not self.values,
            "NotIn": not self.values,
            "Exists": bool(self.values),
            "DoesNotExist": bool(self.values),
        }.get(self.operator, len(self.values) != 1)
        if is_wrong:
            raise refused("must have values for In and NotIn, one for Gt and Lt, and none for Exists and DoesNotExist")
        return self

    def requirement(self) -> Requirement:
        """As nodes are matched by it."""
        return Requirement(self.key, self.operator, tuple(self.values))


class _NodeSelectorTerm(Section):
    match_expressions: list[_NodeSelectorRequirement] = Field(default_factory=list)
    match_fields: list[_NodeSelectorRequirement] = Field(default_factory=list)

    def term(self) -> Term:
        """As nodes are matched by it."""
        expressions, fields = self.match_expressions, self.match_fields
        return Term(tuple(one.requirement() for one in expressions), tuple(one.requirement() for one in fields))


class _NodeSelector(Section):
    node_selector_terms: list[_NodeSelectorTerm] = Field(min_length=1)

    def selector(self) -> NodeSelector:
        """As nodes are matched by it."""
        return tuple(one.term() for one in self.node_selector_terms)


class _PreferredTerm(Section):
    weight: int = Field(ge=1, le=100)
    preference: _NodeSelectorTerm


class _AddedAffinity(Section):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[_PreferredTerm] = Field(default_factory=list)


class NodeAffinityArgs(Arguments):
    """An affinity that every pod has beside its own."""

    added_affinity: _AddedAffinity = Field(default_factory=_AddedAffinity)

    def plugins(self) -> Sequence[Plugin]:
        """The plugin with these arguments."""
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        preferences = [Preference(one.weight, one.preference.term()) for one in preferred]
        return node_affinity_plugins(required.selector() if required else None, preferences)


class VolumeBindingArgs(Arguments):
    """How nodes are scored by their storage, from Kubernetes 1.37 on."""

    shape: _Shape = Field(default_factory=list)

    def plugins(self) -> Sequence[Plugin]:
        """The plugin with these arguments."""
        return (volume_binding(_points(self.shape) or MOST_FREE),)


ARGUMENTS: Mapping[str, type[Arguments]] = {
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""By the plugin's name."""
