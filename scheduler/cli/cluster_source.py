"""Options that name the input: files or a cluster, its release and gates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from allocator.gates import DEFAULT_RELEASE, RELEASES, Features, UnknownGate
from allocator.model import Requirement
from allocator.policies import NAMES
from scheduler.cli.ending import KUBECTL_DRA, FilePath, print_to_stderr
from scheduler.client.api_resources import NAMESPACES, PODS, Resource
from scheduler.core_v1.label_selectors import InvalidLabelQuery, requirements, selects
from scheduler.core_v1.object_fields import NamespacedName
from scheduler.core_v1.pod import DEFAULT_NAMESPACE
from scheduler.input.documents import STDIN, Finding, RawObject, read
from scheduler.terminal_text import printable

if TYPE_CHECKING:
    from scheduler.client.discovery import Served  # with all that it takes to call a server
if TYPE_CHECKING:
    from scheduler.cli.live_cluster import LiveCluster


# What a shell suggests: policies, gates, and namespaces and pods of the input.


def policies(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """Policies that are built in."""
    return _starting(NAMES, incomplete)


def gates(context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """The next gate of a list of them, by the release that is chosen."""
    release = context.params.get("release") or context.params.get("kubernetes") or DEFAULT_RELEASE
    before, comma, last = incomplete.rpartition(",")
    settings = (f"{gate}={value}" for gate in sorted(RELEASES[release].gates) for value in ("true", "false"))
    return [f"{before}{comma}{one}" for one in _starting(settings, last)]


def namespaces(context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """Namespaces of the files that are named already, or of the cluster."""
    paths = _paths(context)
    names = [own for own, _ in _names_of_files(paths)] if paths else [name for _, name in _live(context, NAMESPACES)]
    return _starting(sorted(set(names) - {""}), incomplete)


def pods(context: click.Context, _option: click.Parameter, incomplete: str) -> list[Any]:
    """Pods of the files that are named already, or of the cluster, as `namespace/name`; files where there are none."""
    paths = _paths(context)
    known = _names_of_files(paths, "Pod") if paths else _live(context, PODS)
    namespace = context.params.get("namespace") or ""
    names = [f"{own}/{name}" for own, name in known if namespace in ("", own)]
    return _starting(sorted(names), incomplete) or [CompletionItem(incomplete, type="file")]


def pods_or_files(context: click.Context, option: click.Parameter, incomplete: str) -> list[Any]:
    """Pods of the cluster for the first argument, files after it."""
    if context.params.get("arguments"):
        return [CompletionItem(incomplete, type="file")]
    return pods(context, option, incomplete)


def _starting(names: Iterable[str], start: str) -> list[str]:
    return [name for name in names if name.startswith(start)]


def _paths(context: click.Context) -> Sequence[str]:
    """Of the command line so far; standard input is not there yet."""
    given = context.params.get("paths") or (context.params.get("arguments") or ())[1:]
    return [path for path in given if path != STDIN]


def _names_of_files(paths: Sequence[str], kind: str = "") -> Iterator[tuple[str, str]]:
    """Namespace and name of the objects of the kind, or of all."""
    for raw in (one.raw for one in read(paths) if isinstance(one, RawObject)):
        metadata = raw.get("metadata") if kind in ("", raw.get("kind")) else None
        if isinstance(metadata, dict) and metadata.get("name"):
            yield str(metadata.get("namespace") or ""), str(metadata["name"])


def _live(context: click.Context, resource: Resource) -> Sequence[tuple[str, str]]:
    from scheduler.cli.live_cluster import names_of  # with all that it takes to call a server

    access = ClusterAccess(context.params.get("kubeconfig") or "", context.params.get("context") or "")
    return names_of(access, resource)


# Options that say which features are in force: `--kubernetes`, `--feature-gates`, `--strict`.


OF_FILES = f"Kubernetes release to follow where releases differ.  [default: {DEFAULT_RELEASE}]"
OF_FILES_OR_A_CLUSTER = (
    "Kubernetes release to follow where releases differ.  "
    f"[default: the release of the cluster that is read; {DEFAULT_RELEASE} for files]"
)


@dataclass(frozen=True, slots=True)
class FeatureChoice:
    """What the user chose. release: None for the one of the cluster, or the default."""

    release: str | None = None
    gates: Mapping[str, bool] | None = None
    is_strict: bool = False
    is_verbose: bool = False

    def features(self, served: "Served | None" = None) -> Features:
        """The features in force. served: what the API server serves, where a cluster is read. Raises BadParameter."""
        try:
            features = self._of_release(served) if served is None or self.release else served.features(self.gates or {})
        except UnknownGate as error:
            raise click.BadParameter(str(error), param_hint="--feature-gates") from error
        features = features.strictly() if self.is_strict else features
        if self.is_verbose:
            print_to_stderr([f"features in force: {features}"])
        return features

    def _of_release(self, served: "Served | None") -> Features:
        return Features.of(self.release or (served.release if served else DEFAULT_RELEASE), self.gates)


def gates_of(text: str) -> dict[str, bool]:
    """The gates of `NAME=BOOL,...`. Raises click's BadParameter."""
    gates: dict[str, bool] = {}
    for setting in filter(None, text.split(",")):
        gate, _, value = setting.strip().partition("=")
        if value.lower() not in ("true", "false"):
            raise click.BadParameter(f"{setting!r} is not NAME=true or NAME=false", param_hint="--feature-gates")
        gates[gate] = value.lower() == "true"
    return gates


def choice_options(release_help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options, and calls it with `choice`. release_help: of --kubernetes, with its default."""

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_choice(*, release: str | None, gates: str, is_strict: bool, verbose: bool, **others: Any) -> None:
            choice = FeatureChoice(release, gates_of(gates), is_strict, verbose)
            command(choice=choice, **others)

        for option in reversed(_options(release_help)):
            with_choice = option(with_choice)
        return with_choice

    return with_options


def _options(release_help: str) -> tuple[Callable[..., Any], ...]:
    return (
        click.option("--kubernetes", "release", type=click.Choice(sorted(RELEASES)), help=release_help),
        click.option(
            "--feature-gates",
            "gates",
            default="",
            metavar="NAME=BOOL,...",
            shell_complete=gates,
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


def feature_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command on files the options, and calls it with `features`."""

    @wraps(command)
    def with_features(*, choice: FeatureChoice, **others: Any) -> None:
        command(features=choice.features(), **others)

    return choice_options(OF_FILES)(with_features)


# What every subcommand that looks at a cluster is given: files or a live cluster, and what of it is printed.


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
    """The objects that are printed.

    They do not change what counts: devices that others hold are in use all the same.
    """

    namespace: str = ""
    """Empty for all."""
    selector: tuple[Requirement, ...] = ()
    query: str = ""
    """The selector as it was given."""
    home: str = DEFAULT_NAMESPACE
    """The namespace of names that have none, where it is not `namespace`."""
    is_of_home: bool = False
    """Lists are of that namespace, too, as kubectl's are."""

    @property
    def of_lists(self) -> "ShownObjects":
        """What a list of objects prints that are in namespaces."""
        return replace(self, namespace=self.home) if self.is_of_home and not self.namespace else self

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.namespace and not self.selector

    def has(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """True for an object of that namespace with these labels; an object of the cluster is in no namespace."""
        return self.namespace in ("", namespace) and selects(self.selector, labels)

    def key_of(self, name: str) -> NamespacedName:
        """Namespace and name of `ns/name`, or of a name in the namespace of -n, without it in `home`.

        Raises UsageError for a name in another namespace.
        """
        namespace, slash, rest = name.partition("/")
        if not slash:
            return self.namespace or self.home, name
        if self.namespace not in ("", namespace):
            raise click.UsageError(f"{name} is not in the namespace of -n, {self.namespace}.")
        return namespace, rest

    def __str__(self) -> str:
        namespace = f" in namespace {self.namespace}" if self.namespace else ""
        labels = f" with labels {self.query}" if self.query else ""
        return printable(f"{namespace}{labels}".strip()) or "in the input"


EVERYTHING = ShownObjects()


def page_head(names: Sequence[str], features: Features) -> Sequence[str]:
    """What a page says of its input. names: of files, or of the cluster."""
    return [
        ", ".join("standard input" if name == STDIN else name for name in names),
        f"Kubernetes {features.release.name}",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
    ]


def is_called_by_kubectl() -> bool:
    """Whether this is the program `kubectl-dra`."""
    context = click.get_current_context(silent=True)
    return context is not None and context.find_root().info_name == KUBECTL_DRA


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
        self._shown = shown
        self.access = cluster or ClusterAccess()
        self.choice = choice or FeatureChoice()
        if paths and self.access.is_named:
            raise click.UsageError("--kubeconfig and --context name a cluster to read: they exclude PATH.")

    def at(self, paths: tuple[str, ...]) -> "ClusterSource":
        """The same of these paths."""
        return ClusterSource(paths, self.access, self.choice, self._shown)

    @cached_property
    def shown(self) -> ShownObjects:
        """What of it is printed. `kubectl dra` takes the namespace of the context, as kubectl does."""
        if self.paths or self._shown.namespace or not is_called_by_kubectl():
            return replace(self._shown, is_of_home=False)
        from scheduler.cli.live_cluster import namespace_of  # with all that it takes to call a server

        return replace(self._shown, home=namespace_of(self.access))

    def objects(self) -> Iterable[RawObject | Finding]:
        """All objects; the command ends where a cluster cannot be read."""
        return read(self.paths) if self.paths else self._live.objects

    @cached_property
    def features(self) -> Features:
        """Those that were chosen, by default those of the cluster."""
        return self.choice.features(None if self.paths else self._live.served)

    @property
    def head(self) -> Sequence[str]:
        """What a page says of the input."""
        return page_head(self.paths or (self._live.name,), self.features)

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
        shell_complete=namespaces,
        help="Print only objects in this namespace; it is also the default for names without one. Devices held by "
        "others are still in use.  [default for `kubectl dra` on a cluster: the namespace of the context]",
    ),
    click.option(
        "-A",
        "--all-namespaces",
        is_flag=True,
        help="Print objects of all namespaces, despite -n; the default, but for `kubectl dra`.",
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

    argument = click.argument("paths", nargs=-1, metavar="[PATH...]", type=FilePath(allow_dash=True))
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
        chosen = "" if all_namespaces else namespace
        shown = ShownObjects(chosen, _requirements(query), query, is_of_home=not all_namespaces)
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
