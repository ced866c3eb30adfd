"""What every subcommand that looks at a cluster is given: files or a live cluster, and what of it is printed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

import click

from allocator.gates import Features
from allocator.model import Requirement
from scheduler.cli import suggestions
from scheduler.cli.feature_options import OF_FILES_OR_A_CLUSTER, FeatureChoice, choice_options
from scheduler.core_v1.label_query import InvalidLabelQuery, requirements
from scheduler.core_v1.label_selector import selects
from scheduler.core_v1.pod import DEFAULT_NAMESPACE
from scheduler.input.documents import Finding, RawObject, read
from scheduler.terminal_text import printable

if TYPE_CHECKING:
    from scheduler.cli.live_cluster import LiveCluster

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Which cluster is read. Empty: as kubectl finds it."""

    kubeconfig: str = ""
    context: str = ""

    @property
    def is_named(self) -> bool:
        """Whether the user has named one."""
        return bool(self.kubeconfig or self.context)


@dataclass(frozen=True, slots=True)
class ShownObjects:
    """The objects that are printed. They do not change what counts: devices that others hold are in use all the same.

    namespace: empty for all. query: the selector as it was given.
    """

    namespace: str = ""
    selector: tuple[Requirement, ...] = ()
    query: str = ""

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.namespace and not self.selector

    def has(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """True for an object of that namespace with these labels; an object of the cluster is in no namespace."""
        return self.namespace in ("", namespace) and selects(self.selector, labels)

    def key_of(self, name: str) -> Key:
        """Namespace and name of `ns/name`, or of a name in the namespace of -n, `default` without it.

        Raises UsageError for a name in another namespace.
        """
        namespace, slash, rest = name.partition("/")
        if not slash:
            return self.namespace or DEFAULT_NAMESPACE, name
        if self.namespace not in ("", namespace):
            raise click.UsageError(f"{name} is not in the namespace of -n, {self.namespace}.")
        return namespace, rest

    def __str__(self) -> str:
        namespace = f" in namespace {self.namespace}" if self.namespace else ""
        labels = f" with labels {self.query}" if self.query else ""
        return printable(f"{namespace}{labels}".strip()) or "in the input"


EVERYTHING = ShownObjects()


class ClusterSource:
    """What a command reads, when it asks for it, and what of it it prints.

    paths: files and folders; none for the cluster. access: which it is. choice: of features.
    """

    def __init__(
        self,
        paths: tuple[str, ...] = (),
        cluster: ClusterAccess | None = None,
        choice: FeatureChoice | None = None,
        shown: ShownObjects = EVERYTHING,
    ) -> None:
        self.paths = paths
        self.shown = shown
        self.access = cluster or ClusterAccess()
        self.choice = choice or FeatureChoice()
        if paths and self.access.is_named:
            raise click.UsageError("--kubeconfig and --context name a cluster to read: they exclude PATH.")

    def at(self, paths: tuple[str, ...]) -> "ClusterSource":
        """The same of these paths."""
        return ClusterSource(paths, self.access, self.choice, self.shown)

    def objects(self) -> Iterable[RawObject | Finding]:
        """All objects; the command ends where a cluster cannot be read."""
        return read(self.paths) if self.paths else self._live.objects

    @cached_property
    def features(self) -> Features:
        """Those that were chosen, by default those of the cluster."""
        return self.choice.features(None if self.paths else self._live.served)

    @cached_property
    def _live(self) -> "LiveCluster":
        from scheduler.cli.live_cluster import read_cluster  # with all that it takes to call a server

        return read_cluster(self.access)


_OPTIONS = (
    click.option(
        "--kubeconfig", default="", metavar="FILE", help="Read the cluster of this kubeconfig, in place of PATH."
    ),
    click.option("--context", default="", metavar="NAME", help="Read the cluster of this context, in place of PATH."),
    click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        shell_complete=suggestions.namespaces,
        help="Print only objects of this namespace, in which names without one are, too. Devices that others hold "
        "are in use all the same.",
    ),
    click.option(
        "-A",
        "--all-namespaces",
        is_flag=True,
        help="Print objects of all namespaces, despite -n; the default.",
    ),
    click.option(
        "-l",
        "--selector",
        "query",
        default="",
        metavar="QUERY",
        help="Print only objects with these labels: key=value, key!=value, key in (a,b), key notin (a,b), key, !key, "
        "separated by commas.",
    ),
)


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives the command PATH and the options on what is read, and calls it with `source`."""

    @wraps(command)
    def with_paths(*, paths: tuple[str, ...], source: ClusterSource, **others: Any) -> None:
        command(source=source.at(paths), **others)

    argument = click.argument("paths", nargs=-1, metavar="[PATH...]", type=click.Path(allow_dash=True))
    return argument(cluster_options(with_paths))


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same without PATH, for a command that takes its arguments apart itself."""

    @wraps(command)
    def with_source(  # noqa: PLR0913 - one for each option
        *,
        kubeconfig: str,
        context: str,
        namespace: str,
        all_namespaces: bool,
        query: str,
        choice: FeatureChoice,
        **others: Any,
    ) -> None:
        shown = ShownObjects("" if all_namespaces else namespace, _requirements(query), query)
        command(source=ClusterSource((), ClusterAccess(kubeconfig, context), choice, shown), **others)

    with_options = choice_options(OF_FILES_OR_A_CLUSTER)(with_source)
    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options


def _requirements(query: str) -> tuple[Requirement, ...]:
    try:
        return requirements(query)
    except InvalidLabelQuery as error:
        raise click.BadParameter(str(error), param_hint="-l") from error
