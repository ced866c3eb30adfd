"""What the rules of `dra lint` look at: requests and classes, and the devices that their selectors are run over."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import cel
from allocator.api.versions import GROUP, SERVED, Served, versions_of
from allocator.bits import bits
from allocator.explain.selector_operands import GuiltyOperands
from allocator.explain.text import summary
from allocator.fleet.fleet import Fleet
from allocator.gates import Features
from allocator.limits import TenantLimit
from allocator.model import Alternative, Claim, Constraint, Device, DeviceClass, DeviceID
from allocator.outcome import AllocationError, Exhausted, OutOfSteps
from allocator.status import DeviceState, Membership, OrderedAnswers, OrderedResult, PoolStatus
from scheduler.checks.contract import ObjectName, Observation
from scheduler.core_v1 import pod_group
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Owner, Pod, PodClaim
from scheduler.core_v1.workload import KINDS
from scheduler.decision.cluster import Cluster
from scheduler.input.documents import Finding, FindingReason
from scheduler.input.identity import claim_of_template
from scheduler.input.inventory import IN_NO_NAMESPACE, Inventory
from scheduler.status import KnownNames, known_names

_SERVED: Mapping[str, Served] = {GROUP: SERVED, pod_group.GROUP: pod_group.SERVED}


@dataclass(frozen=True, slots=True)
class WaitingClaim:
    """A claim that is not allocated, or what a template makes. path: of its spec in the object."""

    subject: ObjectName
    claim: Claim
    path: str


@dataclass(frozen=True, slots=True)
class UnsatisfiedClaim:
    """A claim for which no node was found, though nothing is in use.

    is_known: whether none is there; otherwise the search ended first.
    """

    asked: WaitingClaim
    reason: str
    is_known: bool


NO_DEVICE = "false"
"""The selector of a class that is not known: no device is asked."""


@dataclass(frozen=True, slots=True)
class CheckedSelector:
    """A selector of a class, or of a request."""

    subject: ObjectName
    field: str
    """The path of the selector."""
    expression: str
    before: tuple[str, ...]
    """The expressions that are asked before it; no later one is asked of a device that one of them refuses."""
    devices: Sequence[Device]
    """The devices that it is asked of."""
    whole: str
    """All these devices, in words."""
    is_first: bool
    """It is the first selector of its class, or of its request."""
    where: str
    """The same in words."""


@dataclass(frozen=True, slots=True)
class CheckedPod:
    """A pod that waits or runs, or one that a workload asks for. path: of the pod's spec in the object."""

    subject: ObjectName
    path: str
    pod: Pod


@dataclass(eq=False)
class Manifests:
    """The input."""

    inventory: Inventory
    features: Features
    pools: Sequence[PoolStatus]
    """The pools with the devices of their newest generation."""
    cluster: Cluster
    """All nodes, with nothing in use."""
    expanded: Sequence[Pod]
    """The pods that workloads stand for, which are not in the input."""
    switched_off: Sequence[str]
    """A line for each gate that is off though the input uses its feature."""
    limits: Sequence[TenantLimit] = ()
    """Per tenant; they hold in the cluster."""

    @cached_property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of the namespaces, by name."""
        return {one.name: one.labels for one in self.inventory.of(Namespace)}

    def reported(self, *reasons: FindingReason) -> Iterator[Observation]:
        """What was found for these reasons while the input was read."""
        for finding in (*self.inventory.errors, *self.inventory.warnings):
            if finding.reason in reasons:
                yield Observation(_subject(finding), f"{finding.place}: {finding.message}", place=finding.place)

    def versions(self) -> Iterator[tuple[ObjectName, str, Sequence[str]]]:
        """The objects without errors of kinds that allocations depend on.

        Each with its apiVersion, and those in which the release can serve the kind, the newest first.
        """
        for (kind, namespace, name), api_version in sorted(self.inventory.versions.items()):
            group = api_version.partition("/")[0]
            kinds = _SERVED.get(group, {})
            if any(kind in each for each in kinds.values()):
                served = [f"{group}/{one}" for one in versions_of(kind, self.features.release.name, kinds)]
                yield ObjectName(kind, name, "" if kind in IN_NO_NAMESPACE else namespace), api_version, served

    @cached_property
    def devices(self) -> Sequence[Device]:
        """Of all pools."""
        return [one.device for pool in self.pools for one in pool.devices]

    @cached_property
    def usable(self) -> tuple[Device, ...]:
        """The devices that can be allocated, and of which selectors are asked: those of complete pools."""
        listed = [one for pool in self.pools if not pool.problem for one in pool.devices]
        return tuple(one.device for one in listed if one.state is not DeviceState.UNUSABLE)

    def are_of_one_node(self, devices: Iterable[Device]) -> bool:
        """Whether each of the devices is reached from one node only."""
        return all(device.id in self._local for device in devices)

    @cached_property
    def _local(self) -> frozenset[DeviceID]:
        listed = [one for pool in self.pools for one in pool.devices]
        return frozenset(one.device.id for one in listed if one.slice.reach.node_name)

    @cached_property
    def classes(self) -> Sequence[DeviceClass]:
        """By name."""
        return sorted(self.inventory.classes, key=lambda one: one.name)

    @cached_property
    def asked(self) -> Sequence[WaitingClaim]:
        """Claims that wait, and templates, by namespace and name."""
        return asked_in(self.inventory)

    @cached_property
    def unsatisfied(self) -> Sequence[UnsatisfiedClaim]:
        """Of those, the ones that fit no node; none where there are no nodes, or where other rules say more."""
        fleet = self.cluster.fleet
        if not fleet.all:
            return ()
        reported = {str(one.subject) for one in self.reported(FindingReason.REFUSED, FindingReason.UNKNOWN_FIELD)}
        classes = {one.name for one in self.classes}
        guilty = GuiltyOperands(fleet.snapshot)
        answers: dict[Hashable, tuple[str, bool]] = {}
        unsatisfied = []
        for asked in self.asked:
            named = {alternative.class_name for _, alternative in alternatives_of(asked)}
            if str(asked.subject) in reported or not named <= classes:
                continue
            question = _question(asked.claim)
            if question not in answers:
                answers[question] = _why_unsatisfied(fleet, asked.claim, guilty)
            reason, is_known = answers[question]
            if reason:
                unsatisfied.append(UnsatisfiedClaim(asked, reason, is_known))
        return unsatisfied

    @cached_property
    def pods(self) -> Sequence[CheckedPod]:
        """Those that nothing else in the input stands for."""
        return [*_of_workloads(self.inventory), *_of_pods(self.inventory)]

    def named(self, pod: Pod, entry: PodClaim) -> Claim | None:
        """The claim of the pod's entry, or what its template makes; None where the input does not have it."""
        if entry.claim_name:
            claim_object = self.inventory.claims.get((pod.namespace, entry.claim_name))
            return claim_object.claim if claim_object else None
        return self._of_templates.get((pod.namespace, entry.template_name))

    @cached_property
    def _of_templates(self) -> Mapping[tuple[str, str], Claim]:
        return {(one.subject.namespace, one.subject.name): one.claim for one in _templates(self.inventory)}

    @cached_property
    def selectors(self) -> Sequence[CheckedSelector]:
        """All selectors that compile; those that do not are errors of the input."""
        return [*self._of_classes(), *self._of_requests()]

    @cached_property
    def with_a_cost(self) -> Sequence[CheckedSelector]:
        """Those whose cost the API server looks at: also of requests whose class the input does not have."""
        return [*self.selectors, *self._of_requests_without_class()]

    def _of_classes(self) -> Iterator[CheckedSelector]:
        for device_class in self.classes:
            subject = ObjectName("DeviceClass", device_class.name)
            fields = [f"spec.selectors[{number}].cel.expression" for number in range(len(device_class.selectors))]
            yield from self._chain((subject, ""), fields, (), device_class.selectors, "the input's devices")

    def _of_requests(self) -> Iterator[CheckedSelector]:
        classes = {one.name: one for one in self.classes}
        for asked in self.asked:
            for at, alternative in alternatives_of(asked):
                if device_class := classes.get(alternative.class_name):
                    fields = [f"{at}.selectors[{n}].cel.expression" for n in range(len(alternative.selectors))]
                    before = tuple(one or "" for one in device_class.selectors)
                    whole = f"the devices of class {device_class.name}"
                    place = asked.subject, f"request {alternative.name}, "
                    yield from self._chain(place, fields, before, alternative.selectors, whole)

    def _of_requests_without_class(self) -> Iterator[CheckedSelector]:
        classes = {one.name for one in self.classes}
        for asked in self.asked:
            for at, alternative in alternatives_of(asked):
                if alternative.class_name not in classes:
                    fields = [f"{at}.selectors[{n}].cel.expression" for n in range(len(alternative.selectors))]
                    place = asked.subject, f"request {alternative.name}, "
                    yield from self._chain(place, fields, (NO_DEVICE,), alternative.selectors, "no device")

    def _chain(
        self,
        place: tuple[ObjectName, str],
        fields: Sequence[str],
        before: tuple[str, ...],
        expressions: Sequence[str | None],
        whole: str,
    ) -> Iterator[CheckedSelector]:
        """Selectors as the allocator asks them: in order, each of the devices that pass those before it."""
        (subject, at), first = place, len(before)
        for number, (field, expression) in enumerate(zip(fields, expressions, strict=True)):
            if expression and self._compiles(expression):
                is_first = len(before) == first
                asked_of = whole if is_first else f"{whole} that pass the selectors before it"
                where, devices = f"{at}selector #{number}", self.passing(before)
                yield CheckedSelector(subject, field, expression, before, devices, asked_of, is_first, where)
            before = (*before, expression or "")

    def _compiles(self, expression: str) -> bool:
        try:
            cel.compile(expression, self.features.environment)
        except cel.CompileError:
            return False
        return True

    def passing(self, expressions: tuple[str, ...]) -> tuple[Device, ...]:
        """The usable devices that pass all of the expressions, none where one does not compile."""
        return self._answers.passing(expressions)

    def answers(self, selector: CheckedSelector) -> OrderedResult:
        """What the selector says. Cost: O(its devices), once for equal selectors after equal ones."""
        return self._answers.of((*selector.before, selector.expression))

    @cached_property
    def _answers(self) -> OrderedAnswers:
        return OrderedAnswers(self.usable, self.features.environment)

    @cached_property
    def memberships(self) -> Sequence[Membership]:
        """Which devices each class selects, by its name."""
        return [Membership(one, self.features.environment) for one in self.classes]

    def cost(self, selector: CheckedSelector) -> int:
        """The most that the selector can cost, as the API server estimates it."""
        return cel.compile(selector.expression, self.features.environment).estimated_cost

    @cached_property
    def names(self) -> KnownNames:
        """Of all devices."""
        return known_names(self.devices)


def alternatives_of(asked: WaitingClaim) -> Iterator[tuple[str, Alternative]]:
    """(path, alternative) of each way to satisfy a request of the claim."""
    for number, request in enumerate(asked.claim.requests):
        for place, alternative in enumerate(request.alternatives):
            way = f"firstAvailable[{place}]" if request.is_first_available else "exactly"
            yield f"{asked.path}.devices.requests[{number}].{way}", alternative


def _subject(finding: Finding) -> ObjectName:
    kind, _, name = finding.subject.partition(" ")
    namespace, slash, rest = name.partition("/")
    if not kind:
        return ObjectName("file", finding.place.file_text)
    return ObjectName(kind, rest, namespace) if slash else ObjectName(kind, name)


def _of_workloads(inventory: Inventory) -> Iterator[CheckedPod]:
    for workload in inventory.workloads:
        if not workload.note and not _has(inventory, workload.namespace, workload.owner):
            yield CheckedPod(
                ObjectName(workload.kind, workload.name, workload.namespace),
                _template_path(workload.kind),
                workload.template,
            )


def _of_pods(inventory: Inventory) -> Iterator[CheckedPod]:
    for pod in inventory.pods:
        if not pod.is_over and not _has(inventory, pod.namespace, pod.owner):
            yield CheckedPod(ObjectName("Pod", pod.name, pod.namespace), "spec", pod)


def _has(inventory: Inventory, namespace: str, owner: Owner | None) -> bool:
    """Whether the owner is in the input, which stands for all that it makes."""
    return owner is not None and (owner.kind, namespace, owner.name) in inventory.versions


def _template_path(kind: str) -> str:
    """Of kinds that are not Kubernetes' own, only where in the pod."""
    if kind == "CronJob":
        return "spec.jobTemplate.spec.template.spec"
    return "spec.template.spec" if kind in KINDS else "spec"


def _claims(inventory: Inventory) -> Iterator[WaitingClaim]:
    for (namespace, name), claim_object in sorted(inventory.claims.items()):
        if claim_object.claim.allocation is None:
            yield WaitingClaim(ObjectName("ResourceClaim", name, namespace), claim_object.claim, "spec")


def asked_in(inventory: Inventory) -> Sequence[WaitingClaim]:
    """Claims that wait, and templates, by namespace and name."""
    return [*_claims(inventory), *_templates(inventory)]


def _templates(inventory: Inventory) -> Iterator[WaitingClaim]:
    for (namespace, name), template in sorted(inventory.templates.items()):
        claim = claim_of_template(template).object
        if isinstance(claim, Claim):
            subject = ObjectName("ResourceClaimTemplate", name, namespace)
            yield WaitingClaim(subject, replace(claim, uid=f"{namespace}/{name}"), "spec.spec")


def _question(claim: Claim) -> Hashable:
    """Equal for claims that ask for the same: most are made of a few templates."""
    requests = tuple((one.name, tuple(way.fingerprint for way in one.alternatives)) for one in claim.requests)
    return requests, claim.constraints, claim.unknown_fields


def _why_unsatisfied(fleet: Fleet, claim: Claim, guilty: GuiltyOperands) -> tuple[str, bool]:
    """Why no node satisfies the claim, empty if one does; and whether that is known of all nodes."""
    try:
        if fleet.able([claim]):
            return "", True
        fleet.scores([claim], fleet.all)  # which raises what ends the attempt on every node, such as a missing class
        refusals = list(fleet.unable([claim], fleet.all))
    except AllocationError as error:
        return str(error).partition("\n")[0], not isinstance(error, OutOfSteps)
    first = [(fleet.node(next(bits(nodes))), outcome, nodes.bit_count()) for outcome, nodes in refusals]
    groups = [(node.name, guilty.named(node, [claim], outcome), number) for node, outcome, number in first]
    is_known = not any(isinstance(outcome, Exhausted) for _, outcome, _ in first)
    return summary(groups, fleet.all.bit_count()).partition("\n")[0], is_known


def constraints_on_unknown(
    asked: Iterable[WaitingClaim], attributes: Collection[str]
) -> Iterator[tuple[WaitingClaim, int, str, str]]:
    """The constraints on attributes that are none of these, and that the claim does not derive itself.

    Each with its claim, its position, its field and the attribute.
    """
    for claim in asked:
        derived = {name for _, way in alternatives_of(claim) for name, _ in way.derived_attributes}
        for number, constraint in enumerate(claim.claim.constraints):
            field, name = _constrained(constraint)
            if name and name not in attributes and name not in derived:
                yield claim, number, field, name


def _constrained(constraint: Constraint) -> tuple[str, str]:
    """(field, attribute)."""
    if constraint.match_attribute:
        return "matchAttribute", constraint.match_attribute
    return "distinctAttribute", constraint.distinct_attribute
