"""Options that say which features are in force: `--kubernetes`, `--feature-gates`, `--strict`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from allocator.gates import DEFAULT_RELEASE, RELEASES, Features, UnknownGate
from scheduler.cli import suggestions
from scheduler.cli.ending import print_to_stderr

if TYPE_CHECKING:
    from scheduler.client.discovery import Served  # with all that it takes to call a server

OF_FILES = f"Kubernetes release to follow where releases differ.  [default: {DEFAULT_RELEASE}]"
OF_FILES_OR_A_CLUSTER = (
    "Kubernetes release to follow where releases differ.  "
    f"[default: that of the cluster that is read; {DEFAULT_RELEASE} for files]"
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
            found = self._of_release(served) if served is None or self.release else served.features(self.gates or {})
        except UnknownGate as error:
            raise click.BadParameter(str(error), param_hint="--feature-gates") from error
        found = found.strictly() if self.is_strict else found
        if self.is_verbose:
            print_to_stderr([f"features in force: {found}"])
        return found

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
            shell_complete=suggestions.gates,
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
