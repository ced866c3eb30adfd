"""What commands on files share: options, reading the input, and selecting pods."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from allocator.did_you_mean import did_you_mean, similar
from allocator.gates import DEFAULT_RELEASE, RELEASES, Features, UnknownGate
from allocator.model import Claim
from allocator.policies import NAMES, UnknownPolicy, policy_of
from allocator.policies.contract import FIRST_FIT
from allocator.status.pool_status import PoolStatus, pool_statuses
from scheduler.cli.ending import print_to_stderr, stop
from scheduler.cli.progress import after_delay
from scheduler.core_v1.pod import DEFAULT_NAMESPACE, Pod
from scheduler.input.documents import Finding, RawObject, read
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.offline.input_claims import Claims, identified
from scheduler.offline.placement import Placement, is_pending
from scheduler.offline.priorities import Priorities
from scheduler.offline.snapshot_cluster import NEEDED_ALLOCATABLE, cluster_of, unseen_storage
from scheduler.offline.virtual_pods import expand
from scheduler.offline.volume_claims import volume_claims_to_be
from scheduler.output.input_report import (
    early_volumes,
    report,
    unchecked_room,
    unchecked_spread,
    unchecked_volumes,
    unknown_priorities,
    unoffered_resources,
    unread_groups,
)
from scheduler.output.switched_off import switched_off
from scheduler.output.unknown_attributes import unknown_attributes
from scheduler.plugins.profile import Profile
from scheduler.simulation.changes import InvalidChange, changed, is_change
from scheduler.state.extended_resources import ExtendedResources
from scheduler.status.claim_status import ClaimStatus, claim_statuses

Key = tuple[str, str]
"""Namespace and name."""

_MOST_MEANT = 3
"""Suggested names that are listed; of the others only the number is given."""

_FEATURE_OPTIONS = (
    click.option(
        "--kubernetes",
        "release",
        type=click.Choice(sorted(RELEASES)),
        default=DEFAULT_RELEASE,
        show_default=True,
        help="Kubernetes release to follow where releases differ.",
    ),
    click.option(
        "--feature-gates",
        "gates",
        default="",
        metavar="NAME=BOOL,...",
        help="Feature gates that differ from the defaults of the release, such as DRAListTypeAttributes=true.",
    ),
    click.option(
        "--strict",
        "is_strict",
        is_flag=True,
        help="Behave like kube-scheduler even where this program does better (docs/differences.md).",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Print the enabled features to standard error."),
)

paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(allow_dash=True))

_CLUSTER_OPTIONS = (
    click.option(
        "--kubeconfig", default="", metavar="FILE", help="Read the cluster of this kubeconfig, in place of PATH."
    ),
    click.option("--context", default="", metavar="NAME", help="Read the cluster of this context, in place of PATH."),
)


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Which cluster is read. Empty: as kubectl finds it."""

    kubeconfig: str = ""
    context: str = ""

    @property
    def is_named(self) -> bool:
        """Whether the user has named one."""
        return bool(self.kubeconfig or self.context)


THE_CURRENT_ONE = ClusterAccess()


@dataclass(frozen=True, slots=True)
class Source:
    """Where the input comes from: the paths, or the cluster if there are none."""

    paths: tuple[str, ...] = ()
    cluster: ClusterAccess = THE_CURRENT_ONE

    def objects(self) -> Iterable[RawObject | Finding]:
        """All objects; the command ends where a cluster cannot be read."""
        if self.paths and self.cluster.is_named:
            raise click.UsageError("--kubeconfig and --context name a cluster to read: they exclude PATH.")
        if self.paths:
            return read(self.paths)
        from scheduler.cli.live_cluster import live_objects  # with all that it takes to call a server

        return live_objects(self.cluster)


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command the options that name a cluster, and calls it with `cluster`."""

    @wraps(command)
    def with_cluster(*, kubeconfig: str, context: str, **others: Any) -> None:
        command(cluster=ClusterAccess(kubeconfig, context), **others)

    for option in reversed(_CLUSTER_OPTIONS):
        with_cluster = option(with_cluster)
    return with_cluster


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command paths and the options that name a cluster, and calls it with `source`."""

    @wraps(command)
    def with_source(*, paths: tuple[str, ...], cluster: ClusterAccess, **others: Any) -> None:
        command(source=Source(paths, cluster), **others)

    argument = click.argument("paths", nargs=-1, metavar="[PATH...]", type=click.Path(allow_dash=True))
    return argument(cluster_options(with_source))


keep_going_option = click.option(
    "--keep-going", is_flag=True, help="If the input has errors, use the rest of it; the exit code is still 2."
)
overlay_option = click.option(
    "--overlay",
    "overlays",
    multiple=True,
    metavar="PATH",
    type=click.Path(),
    help="Objects to add; they replace objects of the same kind, namespace and name. Or a change, such as drain:NODE "
    "(docs/simulate.md). Can be repeated.",
)


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
    help=f"Which of the valid nodes and devices to select: {', '.join(NAMES)}, or a class of your own "
    "(docs/policies.md).",
)
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration file of the live scheduler, whose profiles and policy are used. --policy overrides it.",
)


def profile_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command the options that say how pods are decided, and calls it with `profiles`."""

    @wraps(command)
    def with_profiles(*, policy: str, config: Path | None, **others: Any) -> None:
        command(profiles=profiles_of(config, policy), **others)

    for option in (config_option, policy_option):
        with_profiles = option(with_profiles)
    return with_profiles


def profiles_of(config: Path | None, policy: str) -> Sequence[Profile]:
    """The profiles of the file, or the default one, by the policy; the command ends where they cannot be used.

    policy: as `policy_of` takes it; empty where none is given.
    """
    return _profiles(config, policy) if config else (Profile(policy=policy_of(policy or FIRST_FIT.name)),)


def _profiles(config: Path, policy: str) -> Sequence[Profile]:
    """Those of the file; the command ends where it cannot be used."""
    from scheduler.runtime.configuration import Configuration, InvalidConfiguration, load

    try:
        return load(Configuration, config, {"policy": policy} if policy else {}).in_force()
    except InvalidConfiguration as invalid:
        stop(*invalid.problems)


def feature_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command the options that say which features are in force, and calls it with `features`."""

    @wraps(command)
    def with_features(*, release: str, gates: str, is_strict: bool, verbose: bool, **others: Any) -> None:
        features = _features(release, gates, is_strict=is_strict)
        if verbose:
            print_to_stderr([f"features in force: {features}"])
        command(features=features, **others)

    for option in reversed(_FEATURE_OPTIONS):
        with_features = option(with_features)
    return with_features


def gates_of(text: str) -> dict[str, bool]:
    """The gates of `NAME=BOOL,...`. Raises click's BadParameter."""
    gates: dict[str, bool] = {}
    for setting in filter(None, text.split(",")):
        gate, _, value = setting.strip().partition("=")
        if value.lower() not in ("true", "false"):
            raise click.BadParameter(f"{setting!r} is not NAME=true or NAME=false", param_hint="--feature-gates")
        gates[gate] = value.lower() == "true"
    return gates


def _features(release: str, gates: str, *, is_strict: bool) -> Features:
    try:
        return Features.of(release, gates_of(gates), is_strict=is_strict)
    except UnknownGate as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from error


@dataclass(frozen=True, slots=True)
class Input:
    """The input, ready for decisions.

    pods: of the input and those that its workloads stand for, each with its priority. extended: the resources that
    classes stand for.
    """

    inventory: Inventory
    claims: Claims
    pods: Sequence[Pod]
    extended: ExtendedResources

    @staticmethod
    def of(inventory: Inventory, features: Features) -> "Input":
        """The input as pods and claims; what of it does not count, or is only guessed, is reported."""
        print_to_stderr(switched_off(inventory, features))
        print_to_stderr(unknown_attributes(inventory))
        priorities = Priorities(inventory.priority_classes)
        pods = [*inventory.pods, *expand(inventory.workloads, inventory.pods, inventory.nodes)]
        print_to_stderr(unknown_priorities(Counter(pod.priority_class for pod in pods if not priorities.knows(pod))))
        extended = ExtendedResources(inventory.classes, features)
        return Input(inventory, Claims(inventory), identified(pods, priorities.of), extended)

    @property
    def pending(self) -> list[Pod]:
        """The pods that still need something."""
        return [pod for pod in self.pods if is_pending(pod, self.claims.objects, self.extended)]

    def devices_of(self, placement: Placement) -> tuple[list[PoolStatus], list[ClaimStatus]]:
        """Pools and claims as they are in the placement now."""
        claims = claim_statuses(placement.claims.objects.values(), self.pods)
        return list(pool_statuses(placement.cluster.fleet.current)), claims

    def placement(
        self,
        features: Features,
        node: str = "",
        profiles: Sequence[Profile] = (Profile(),),
        *,
        shows_every_node: bool = False,
    ) -> Placement:
        """A placement on the nodes, or on the named one; what is in use is what is allocated in the input."""
        inventory = self.inventory
        if node:
            self.require_node(node)
        cluster = cluster_of(inventory, self.claims, self.pods, features, only_node=node, profiles=profiles)
        return Placement(cluster, self.claims, inventory.namespaces, shows_every_node=shows_every_node)

    def require_node(self, name: str) -> None:
        """End the command where no node of the input has that name."""
        names = [node.name for node in self.inventory.nodes]
        if name not in names:
            stop(f"node {name} is not in the input{did_you_mean(name, names)}")

    def pod(self, key: Key) -> Pod:
        """The pod of that name; a living one goes before one that it replaces."""
        named = [pod for pod in self.pods if (pod.namespace, pod.name) == key]
        if not named:
            known = {(pod.namespace, pod.name) for pod in self.pods}
            stop(f"pod {'/'.join(key)} is not in the input{_meant(key, known)}")
        return min(named, key=lambda pod: pod.is_over)

    def users(self, key: Key) -> tuple[list[Pod], list[Claim]]:
        """The pending pods that use the claim, or the claim alone where none does."""
        users = [pod for pod in self.pending if self.uses(pod, key)]
        if users:
            return users, []
        if key not in self.claims.objects:
            missing = f"claim {'/'.join(key)} is neither in the input nor created from a template for a pod in it"
            stop(f"{missing}{_meant(key, self.claims.objects)}")
        return [], [self.claims.objects[key].claim]

    def uses(self, pod: Pod, key: Key) -> bool:
        """True for a pod with that claim."""
        found = self.claims.of(pod)
        return isinstance(found, list) and any((c.claim.namespace, c.claim.name) == key for _, c in found)

    def warn_of(self, pods: Iterable[Pod]) -> None:
        """Report what placement does not look at, though these pods ask for it."""
        waiting = [pod for pod in pods if not pod.node_name and not pod.is_over]
        placed = [pod for pod in waiting if pod.claims or self.extended.asked_by(pod)]
        print_to_stderr(unread_groups(placed))
        volume_claims = volume_claims_to_be(self.inventory, placed)
        print_to_stderr(unchecked_volumes(placed, unseen_storage(self.inventory), volume_claims.keys))
        print_to_stderr(early_volumes(placed, volume_claims.bound_before))
        print_to_stderr(unchecked_spread(placed, self.pods, self.inventory.kinds))
        if placed and "Node" in self.inventory.kinds:
            has_bound_pods = any(pod.node_name for pod in self.inventory.pods)
            print_to_stderr(unchecked_room(self.inventory.nodes, NEEDED_ALLOCATABLE, has_bound_pods=has_bound_pods))
        print_to_stderr(
            unoffered_resources(self.extended.unoffered(waiting, self.inventory.nodes), is_on=self.extended.is_on)
        )


def inventory_of(source: Source, overlays: Sequence[str], features: Features, *, keep_going: bool) -> Inventory:
    """The inventory of the source. Findings are printed; if it cannot be used, the command ends."""
    return _changed(_usable(_read(source.objects(), overlays, features), keep_going=keep_going), overlays)


def inventories_of(
    source: Source, overlays: Sequence[str], features: Features, *, keep_going: bool
) -> tuple[Inventory, Inventory]:
    """The inventory of the source as it is, and with the overlays; as `inventory_of`. The source is read once."""
    objects = list(source.objects())
    before = _usable(_read(objects, (), features), keep_going=keep_going)
    files = [one for one in overlays if not is_change(one)]
    after = _usable(_read(objects, files, features), keep_going=keep_going) if files else before
    return before, _changed(after, overlays)


def read_inventory(source: Source, overlays: Sequence[str], features: Features) -> Inventory:
    """The inventory of the source, for commands that report its errors themselves."""
    return _changed(_read(source.objects(), overlays, features), overlays)


def _read(objects: Iterable[RawObject | Finding], overlays: Sequence[str], features: Features) -> Inventory:
    files = [one for one in overlays if not is_change(one)]
    with after_delay("reading the input ..."):
        return take_inventory(objects, read(files), features)


def _usable(inventory: Inventory, *, keep_going: bool) -> Inventory:
    """The inventory, after its errors and warnings are printed."""
    print_to_stderr(report(inventory))
    if inventory.errors and not keep_going:
        number = len(inventory.errors)
        errors = f"{number} error{'' if number == 1 else 's'} in the input"
        stop(f"{errors}, nothing was placed; use --keep-going to place the rest")
    if not inventory.kinds:
        stop("the input contains no objects")
    return inventory


def _changed(inventory: Inventory, overlays: Sequence[str]) -> Inventory:
    """The inventory after the changes among the overlays; the command ends where one cannot be made."""
    changes = [one for one in overlays if is_change(one)]
    try:
        return changed(inventory, changes) if changes else inventory
    except InvalidChange as error:
        stop(f"--overlay {error}")


def _meant(key: Key, known: Collection[Key]) -> str:
    """A suggestion (did you mean); empty if nothing is like it."""
    found = _like(key, known)
    names = ["/".join(one) for one in found[:_MOST_MEANT]]
    rest = f" or {len(found) - len(names)} more" if len(found) > len(names) else ""
    return f"; did you mean {', '.join(names)}{rest}?" if names else ""


def _like(key: Key, known: Collection[Key]) -> Sequence[Key]:
    """That name in other namespaces, else the pods of the workload, else similar names in the namespace."""
    namespace, name = key
    return (
        sorted(one for one in known if one[1] == name)
        or sorted(one for one in known if one[1].startswith(f"{name}-"))
        or [(namespace, one) for one in similar(name, (one[1] for one in known if one[0] == namespace))]
    )


def key_of(name: str) -> Key:
    """Namespace and name of `ns/name`, or of a name in the default namespace."""
    namespace, slash, rest = name.partition("/")
    return (namespace, rest) if slash else (DEFAULT_NAMESPACE, namespace)
