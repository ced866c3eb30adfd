"""What commands on files share: options, reading the input, and selecting pods."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Any

import click

from allocator.gates import Features
from allocator.limits import TenantLimit
from allocator.model import Claim
from allocator.policies import NAMES, UnknownPolicy, policy_of
from allocator.policies.contract import FIRST_FIT
from allocator.status import PoolStatus, pool_statuses
from allocator.words import counted, did_you_mean, listed_up_to, similar
from scheduler.cli import cluster_source
from scheduler.cli.cluster_source import ClusterSource, ShownObjects, source_options
from scheduler.cli.ending import FilePath, print_to_stderr, stop
from scheduler.cli.printing import after_delay
from scheduler.core_v1.node import PriorityClass
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_group import CompositePodGroup, PodGroup
from scheduler.core_v1.workload import KINDS as WORKLOAD_KINDS
from scheduler.decision.cluster import Cluster
from scheduler.input.documents import STDIN, Finding, RawObject, read
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.offline.evictions import evictions
from scheduler.offline.group_placement import InputGroups
from scheduler.offline.input_claims import Claims, Priorities, identified
from scheduler.offline.placement import Placement, PodToPlace, Result, is_pending, order_of
from scheduler.offline.snapshot_cluster import NEEDED_ALLOCATABLE, cluster_of, unseen_storage, volume_claims_to_be
from scheduler.offline.virtual_pods import expand, pods_of
from scheduler.output.input_report import (
    early_volumes,
    evicted_pods,
    report,
    unchecked_room,
    unchecked_spread,
    unchecked_volumes,
    unknown_priorities,
    unoffered_resources,
    unread_groups,
    without_claims,
)
from scheduler.plugins.profile import Profile
from scheduler.pod_groups.group import NO_KINDS, POD_GROUP, RECOGNIZED, GroupKey, key_of
from scheduler.simulation.changes import InvalidChange, changed, is_change, unknown_change
from scheduler.state.pod_groups import index_of
from scheduler.state.pod_resources import ExtendedResources
from scheduler.state.pods_by_priority import spares_nobody
from scheduler.status import ClaimStatus, claim_statuses

_MOST_MEANT = 3
"""Suggested names that are listed; of the others only the number is given."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def time_of(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """The seconds that an option such as `10m` stands for; None where it is not given."""
    return None if text is None else seconds_of(text)


def seconds_of(text: str) -> float:
    """Of a time such as 600, 90s, 10m, 1.5h or 1d. Raises click.BadParameter."""
    number = text[:-1] if text[-1:] in _UNITS else text
    try:
        seconds = float(number) * _UNITS.get(text[-1:], 1.0)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise click.BadParameter(f"{text!r} is no time such as 600, 90s, 10m or 1h")
    return seconds


paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=FilePath(allow_dash=True))

keep_going_option = click.option(
    "--keep-going", is_flag=True, help="If the input has errors, use the rest of it; the exit code is still 2."
)


def known_changes(_context: click.Context, _option: click.Parameter, overlays: tuple[str, ...]) -> tuple[str, ...]:
    """The values of --overlay. A change that is misspelt is not looked for as a file."""
    for overlay in overlays:
        if ":" in overlay and not is_change(overlay) and not Path(overlay).exists():
            raise click.BadParameter(unknown_change(overlay))
    return overlays


overlay_option = click.option(
    "--overlay",
    "overlays",
    multiple=True,
    metavar="PATH",
    type=FilePath(),
    callback=known_changes,
    help="Objects to add; they replace objects of the same kind, namespace and name. Or a change, such as drain:NODE "
    "(docs/simulate.md). Can be repeated.",
)


@dataclass(frozen=True, slots=True)
class InputSource:
    """What a command reads. overlays: objects on top, and changes. keep_going: errors in it do not end the command."""

    source: ClusterSource
    overlays: tuple[str, ...] = ()
    keep_going: bool = False

    def inventory(self) -> Inventory:
        """See `inventory_of`."""
        source = self.source
        return inventory_of(source.objects(), self.overlays, source.features, keep_going=self.keep_going)


def input_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command PATH and the options on what is read and printed of it, and calls it with `given`."""

    @wraps(command)
    def with_input(*, source: ClusterSource, overlays: tuple[str, ...], keep_going: bool, **others: Any) -> None:
        command(given=InputSource(source, overlays, keep_going), **others)

    return source_options(overlay_option(keep_going_option(with_input)))


def _policy(_context: click.Context, _option: click.Parameter, text: str | None) -> str:
    try:
        if text:
            policy_of(text)
    except UnknownPolicy as error:
        raise click.BadParameter(str(error)) from error
    return text or ""


POLICY = "NAME[:ATTRIBUTE,...]|MODULE:CLASS"
"""How a policy is written."""

policy_option = click.option(
    "--policy",
    show_default=FIRST_FIT.name,
    metavar=POLICY,
    callback=_policy,
    shell_complete=cluster_source.policies,
    help=f"Which of the valid nodes and devices to select: {', '.join(NAMES)}, or a class of your own "
    "(docs/policies.md).",
)
config_option = click.option(
    "--config",
    type=FilePath(path_type=Path),
    metavar="FILE",
    help="Configuration file of the live scheduler, whose profiles, policy and limits are used. --policy overrides it.",
)


@dataclass(frozen=True, slots=True)
class DecidedBy:
    """How pods are decided: the profiles, the limits per tenant, and who is evicted for whom."""

    profiles: Sequence[Profile] = (Profile(),)
    limits: Sequence[TenantLimit] = ()
    is_off: bool = False
    for_devices: bool = False
    """is_off, for_devices: nobody is evicted for a pod, or for its devices alone."""
    spares: Callable[[Pod], bool] = spares_nobody
    """Pods that are never evicted."""

    def preemption_off(self, pod: Pod | None) -> str:
        """Why nobody is evicted for the pod; empty where somebody may be."""
        if self.is_off:
            return "preemption is off in the configuration"
        if self.for_devices and (pod is None or not pod.claims):
            return "the configuration evicts pods for devices only, and the pod has no claims"
        return ""


def deciding_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command the options that say how pods are decided, and calls it with `decided_by`."""

    @wraps(command)
    def with_options(*, policy: str, config: Path | None, **others: Any) -> None:
        command(decided_by=decided_by(config, policy), **others)

    for option in (config_option, policy_option):
        with_options = option(with_options)
    return with_options


groups_option = click.option(
    "--groups-of",
    "group_kinds",
    multiple=True,
    type=click.Choice(sorted(RECOGNIZED)),
    help="Take pods of this controller for groups, as large as it says on each pod. Can be repeated.",
)


def decided_by(config: Path | None, policy: str) -> DecidedBy:
    """The profiles and limits of the file, or the default profile, by the policy; the command ends if it is invalid.

    policy: as `policy_of` takes it; empty where none is given.
    """
    return _configured(config, policy) if config else DecidedBy((Profile(policy=policy_of(policy or FIRST_FIT.name)),))


def _configured(config: Path, policy: str) -> DecidedBy:
    """By the file; the command ends where it cannot be used."""
    from scheduler.runtime.configuration import Configuration, InvalidConfiguration, PreemptionMode, load

    try:
        configuration = load(Configuration, config, {"policy": policy} if policy else {})
    except InvalidConfiguration as invalid:
        stop(*invalid.problems)
    if followed := configuration.limits_config_map:
        print_to_stderr([f"warning: the limits in ConfigMap {followed} are not read, only those of {config}"])
    profiles, mode = configuration.in_force(), configuration.preemption
    names = {profile.scheduler_name for profile in profiles}
    return DecidedBy(
        profiles,
        configuration.limits_in_force(),
        is_off=mode is PreemptionMode.OFF,
        for_devices=mode is PreemptionMode.DEVICES,
        spares=configuration.spared(lambda pod: pod.scheduler_name in names),
    )


@dataclass(frozen=True, slots=True)
class Input:
    """The input, ready for decisions."""

    inventory: Inventory
    claims: Claims
    pods: Sequence[Pod]
    """Of the input and those that its workloads stand for, each with its priority."""
    extended: ExtendedResources
    """The resources that classes stand for."""
    warnings: tuple[str, ...] = ()
    """About all of it."""
    group_kinds: frozenset[str] = NO_KINDS
    """Controllers whose pods are groups."""

    @staticmethod
    def of(
        inventory: Inventory,
        features: Features,
        reported: Collection[str] = (),
        group_kinds: frozenset[str] = NO_KINDS,
    ) -> "Input":
        """The input as pods and claims; what of it does not count, or is only guessed, is printed.

        reported: lines that are printed already. group_kinds: controllers whose pods are groups.
        """
        priorities = Priorities(inventory.of(PriorityClass))
        pods = [*inventory.pods, *expand(inventory.workloads, inventory.pods, inventory.nodes)]
        unknown = Counter(pod.priority_class for pod in pods if not priorities.knows(pod))
        warnings = list(unknown_priorities(unknown))
        print_to_stderr(line for line in warnings if line not in reported)
        extended = ExtendedResources(inventory.classes, features)
        return Input(
            inventory, Claims(inventory), identified(pods, priorities.of), extended, tuple(warnings), group_kinds
        )

    @property
    def pending(self) -> list[Pod]:
        """The pods that still need something; those of a group wait with the others of it."""
        index = index_of(self.inventory.of(PodGroup), self.inventory.of(CompositePodGroup))
        pending = [pod for pod in self.pods if is_pending(pod, self.claims.objects, self.extended)]
        known = {id(pod) for pod in pending}

        def key(pod: Pod) -> GroupKey | None:
            return None if pod.node_name or pod.is_over else key_of(pod, index, self.group_kinds)

        keys = set(map(key, pending)) - {None}
        beside = [pod for pod in (self.pods if keys else ()) if id(pod) not in known and key(pod) in keys]
        return [*pending, *beside]

    def devices_of(self, placement: Placement) -> tuple[list[PoolStatus], list[ClaimStatus], Cluster]:
        """Pools and claims as they are in the placement now, and the cluster that they are in."""
        claims = claim_statuses(placement.claims.objects.values(), self.pods)
        return list(pool_statuses(placement.cluster.fleet.current)), claims, placement.cluster

    def placement(
        self,
        features: Features,
        node: str = "",
        decided_by: DecidedBy = DecidedBy(),
        *,
        shows_every_node: bool = False,
    ) -> Placement:
        """A placement on the nodes, or on the named one; what is in use is what is allocated in the input."""
        inventory = self.inventory
        if node:
            self.require_node(node)
        profiles, limits = decided_by.profiles, decided_by.limits
        cluster = cluster_of(
            inventory,
            self.claims,
            self.pods,
            features,
            only_node=node,
            profiles=profiles,
            limits=limits,
            spares=decided_by.spares,
        )
        placement = Placement(cluster, self.claims, inventory.namespaces, shows_every_node=shows_every_node)
        placement.takes_group = self.groups(placement).take
        return placement

    def groups(self, placement: Placement) -> InputGroups:
        """The groups of its pods; pods of PodGroups are pods of their own where the input has no PodGroup at all."""
        is_read = POD_GROUP in self.inventory.kinds
        pods = self.pods if is_read else [pod for pod in self.pods if not pod.group]
        return InputGroups(placement, pods, self.group_kinds)

    def require_node(self, name: str) -> None:
        """End the command where no node of the input has that name."""
        names = [node.name for node in self.inventory.nodes]
        if name not in names:
            stop(f"node {name} is not in the input{did_you_mean(name, names)}")

    def pod(self, key: NamespacedName) -> Pod:
        """The pod of that name; a living one goes before one that it replaces."""
        named = [pod for pod in self.pods if (pod.namespace, pod.name) == key]
        if not named:
            known = {(pod.namespace, pod.name) for pod in self.pods}
            stop(f"pod {'/'.join(key)} is not in the input{meant(key, known)}")
        return min(named, key=lambda pod: pod.is_over)

    def pods_of(self, kind: str, key: NamespacedName) -> list[Pod]:
        """The living pods of a workload, those that are pending first, in the order in which they are placed."""
        living = [pod for pod in pods_of((kind, *key), self.inventory.workloads, self.pods) if not pod.is_over]
        if not living:
            workloads = {(one.namespace, one.name) for one in self.inventory.workloads if one.kind == kind}
            stop(f"{kind} {'/'.join(key)} has no pod in the input{meant(key, workloads - {key})}")
        pending = {id(pod) for pod in self.pending}
        return sorted(living, key=lambda pod: (bool(pod.node_name), id(pod) not in pending, order_of(pod)))

    def users(self, key: NamespacedName) -> tuple[list[Pod], list[Claim]]:
        """The pending pods that use the claim, or the claim alone where none does."""
        users = [pod for pod in self.pending if self.uses(pod, key)]
        if users:
            return users, []
        if key not in self.claims.objects:
            missing = f"claim {'/'.join(key)} is neither in the input nor created from a template for a pod in it"
            stop(f"{missing}{meant(key, self.claims.objects)}")
        return [], [self.claims.objects[key].claim]

    def uses(self, pod: Pod, key: NamespacedName) -> bool:
        """True for a pod with that claim."""
        pod_claims = self.claims.of(pod)
        return isinstance(pod_claims, list) and any((c.claim.namespace, c.claim.name) == key for _, c in pod_claims)

    def is_shown(self, found: Result | PodToPlace, shown: ShownObjects) -> bool:
        """True for a pod that is shown, or for such a claim that no pod uses."""
        if found.pod:
            return shown.has(found.pod.namespace, found.pod.labels)
        [claim] = found.claims
        return shown.has(claim.namespace, self.claims.objects[claim.namespace, claim.name].metadata.labels)

    def warn_of(self, pods: Iterable[Pod], *, is_simulated: bool = False) -> None:
        """Report what placement does not look at, though these pods ask for it. is_simulated: as in `unchecked`."""
        print_to_stderr(self.unchecked(pods, is_simulated=is_simulated))

    def unchecked(self, pods: Iterable[Pod], *, is_simulated: bool = False) -> Iterator[str]:
        """Lines on what placement does not look at, though these pods ask for it.

        is_simulated: pods without claims are placed as well, and nodes without any pod are meant so: the input does not
        leave their pods out.
        """
        waiting = [pod for pod in pods if not pod.node_name and not pod.is_over]
        placed = [pod for pod in waiting if pod.claims or self.extended.asked_by(pod)]
        if placed and not is_simulated:
            yield from without_claims(len(waiting) - len(placed))
        yield from unread_groups(placed if POD_GROUP not in self.inventory.kinds else ())
        volume_claims = volume_claims_to_be(self.inventory, placed)
        yield from unchecked_volumes(placed, unseen_storage(self.inventory), volume_claims.keys)
        yield from early_volumes(placed, volume_claims.bound_before)
        yield from unchecked_spread(placed, self.pods, self.inventory.kinds)
        if placed and "Node" in self.inventory.kinds:
            has_bound_pods = is_simulated or self.inventory.has_bound_pods
            yield from unchecked_room(self.inventory.nodes, NEEDED_ALLOCATABLE, has_bound_pods=has_bound_pods)
        unoffered = self.extended.unoffered(waiting, self.inventory.nodes)
        yield from unoffered_resources(unoffered, is_on=self.extended.is_on)


def inventory_of(
    objects: Iterable[RawObject | Finding],
    overlays: Sequence[str],
    features: Features,
    *,
    keep_going: bool | None,
    on_top: Sequence[RawObject | Finding] = (),
) -> Inventory:
    """The inventory of the objects. Findings are printed; if it cannot be used, the command ends.

    keep_going: use the rest of an input with errors; None where the command has no such option. on_top: objects that
    are read already, beside those of the overlays.
    """
    inventory = _usable(_inventory(objects, overlays, features, on_top), features, keep_going=keep_going)
    return _changed(inventory, overlays, features)


def inventories_of(
    objects: Iterable[RawObject | Finding], overlays: Sequence[str], features: Features, *, keep_going: bool
) -> tuple[Inventory, Inventory]:
    """The inventory of the objects as it is, and with the overlays; as `inventory_of`."""
    objects = list(objects)
    before = _usable(_inventory(objects, (), features), features, keep_going=keep_going)
    files = [one for one in overlays if not is_change(one)]
    with_files = _inventory(objects, files, features) if files else before
    after = _usable(with_files, features, keep_going=keep_going, reported=before) if files else before
    return before, _changed(after, overlays, features)


def read_inventory(objects: Iterable[RawObject | Finding], overlays: Sequence[str], features: Features) -> Inventory:
    """The inventory of the objects, for commands that report its errors themselves."""
    return _changed(_inventory(objects, overlays, features), overlays, features)


def _inventory(
    objects: Iterable[RawObject | Finding],
    overlays: Sequence[str],
    features: Features,
    on_top: Sequence[RawObject | Finding] = (),
) -> Inventory:
    files = [one for one in overlays if not is_change(one)]
    with after_delay("reading the input ..."):
        return take_inventory(objects, chain(read(files), on_top), features)


@dataclass(frozen=True, slots=True)
class FileToFit:
    """A file that is named as what is to fit. It is read once: of a pipe nothing is left then."""

    path: str
    objects: Sequence[RawObject | Finding]

    @staticmethod
    def of(subject: str) -> "FileToFit | None":
        """The file of that name; None where there is none, and the subject is a name in the input."""
        is_file = subject == STDIN or Path(subject).exists()
        return FileToFit(subject, tuple(read([subject]))) if is_file else None

    def inventory(self, features: Features) -> Inventory:
        """What the file alone holds."""
        return take_inventory(self.objects, (), features)


def _usable(
    inventory: Inventory, features: Features, *, keep_going: bool | None, reported: Inventory | None = None
) -> Inventory:
    """The inventory, after its errors and warnings are printed, but for those that are reported already."""
    known = set(report(reported, features)) if reported else frozenset[str]()
    print_to_stderr(line for line in report(inventory, features) if line not in known)
    if inventory.errors and not keep_going:
        advice = "" if keep_going is None else "; --keep-going uses the rest of it"
        stop(f"{counted(len(inventory.errors), 'error')} in the input{advice}")
    if not inventory.kinds:
        stop("the input contains no objects")
    if not (inventory.versions or inventory.faults or inventory.errors or inventory.unseen):
        stop("the input contains no objects that count")
    return inventory


def _changed(inventory: Inventory, overlays: Sequence[str], features: Features) -> Inventory:
    """The inventory after the changes among the overlays; the command ends where one cannot be made."""
    changes = [one for one in overlays if is_change(one)]
    if not changes:
        return inventory
    try:
        edited = changed(inventory, changes)
    except InvalidChange as error:
        stop(f"--overlay {error}")
    reported = set(evicted_pods(evictions(inventory, features)))
    print_to_stderr(line for line in evicted_pods(evictions(edited, features)) if line not in reported)
    return edited


_SHORT = {"Deployment": "deploy", "StatefulSet": "sts", "ReplicaSet": "rs", "DaemonSet": "ds", "CronJob": "cj"}
_KINDS = {
    **dict.fromkeys(("po", "pod", "pods"), "pod"),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
    **dict.fromkeys(("resourceclaim.resource.k8s.io", "resourceclaims.resource.k8s.io"), "claim"),
    **dict.fromkeys(("template", "templates", "resourceclaimtemplate", "resourceclaimtemplates"), "template"),
}
"""Kinds that commands take names of, as kubectl takes them."""

WORKLOADS: Mapping[str, str] = {
    name: kind
    for kind, short in {**dict.fromkeys(WORKLOAD_KINDS, ""), **_SHORT}.items()
    for name in filter(None, (short, kind.lower(), f"{kind.lower()}s", f"{kind.lower()}s.{WORKLOAD_KINDS[kind]}"))
}
"""The same for objects that create pods."""


def is_kind(word: str) -> bool:
    """Whether a name of a kind that commands take may follow."""
    return word in _KINDS or word in WORKLOADS


def kind_and_key(name: str, shown: ShownObjects, kinds: Sequence[str], wanted: str) -> tuple[str, NamespacedName]:
    """Kind, and namespace and name, of `kind/namespace/name`; without one, it is empty. wanted: the kinds, in words."""
    first, slash, rest = name.partition("/")
    if slash and (kind := _KINDS.get(first) or WORKLOADS.get(first)) in kinds:
        return str(kind), shown.key_of(rest)
    if name.count("/") > 1:
        stop(f"{name}: {first} is not {wanted}")
    return "", shown.key_of(name)


def meant(key: NamespacedName, known: Collection[NamespacedName]) -> str:
    """A suggestion (did you mean) for a namespace and name that is not known; empty if nothing is like it."""
    names = ["/".join(one) for one in _like(key, known)]
    return f"; did you mean {listed_up_to(names, _MOST_MEANT, word='or')}?" if names else ""


def _like(key: NamespacedName, known: Collection[NamespacedName]) -> Sequence[NamespacedName]:
    """That name in other namespaces, else the pods of the workload, else similar names in the namespace."""
    namespace, name = key
    return (
        sorted(one for one in known if one[1] == name)
        or sorted(one for one in known if one[1].startswith(f"{name}-"))
        or [(namespace, one) for one in similar(name, (one[1] for one in known if one[0] == namespace))]
    )
