"""`dra`: the entry point of all subcommands. A subcommand is imported when it is used, so that help is fast."""

import importlib
import os
import re
import sys
from collections.abc import Mapping

import click

from scheduler import garbage
from scheduler.cli.ending import KUBECTL_DRA, ending_quietly, leave, stop
from scheduler.installation import InstallationError, description, verify

GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Ask": {
        "explain": ("scheduler.cli.explain", "Explain why a pod or claim gets its devices, or none."),
        "status": ("scheduler.cli.status", "Print how many devices are free, and who holds others."),
        "claims": ("scheduler.cli.claims", "Print each claim with its devices, node and users."),
        "cel": ("scheduler.cli.select_devices", "Print which devices a CEL expression selects, and what it costs."),
    },
    "Plan": {
        "allocate": ("scheduler.cli.allocate", "Print nodes and devices of pending pods and claims, from files."),
        "fit": ("scheduler.cli.fit", "Print how many more copies of a pod or claim fit, and where."),
        "defrag": ("scheduler.cli.defrag", "Print which pods to move so that a pod or claim fits."),
        "whatif": ("scheduler.cli.whatif", "Print what a change of the cluster does to the placement."),
        "plan": ("scheduler.cli.plan", "Print how many nodes to add so that all pending pods fit."),
        "simulate": ("scheduler.cli.simulate", "Simulate arrivals and departures of pods, and compare policies."),
    },
    "Check": {
        "lint": ("scheduler.cli.lint", "Check classes, claims and templates against devices."),
        "audit": ("scheduler.cli.audit", "Check that devices, claims and pods agree."),
    },
    "Run": {
        "scheduler": ("scheduler.cli.scheduler", "Run and configure the live scheduler of a cluster."),
        "extender": ("scheduler.cli.extender", "Run the extender of kube-scheduler, and configure both."),
        "guard": ("scheduler.cli.guard", "Run the webhook that prevents a device from being allocated twice."),
    },
    "Develop": {
        "generate": ("scheduler.cli.generate", "Print fleets and workloads of any size from a seed."),
        "dump": ("scheduler.cli.dump_cluster", "Write one JSON file with all that is read of a cluster."),
        "compare": ("scheduler.cli.compare_allocators", "Compare our answers with kube-scheduler's own allocator."),
        "verify": ("scheduler.cli.verify", "Replay recorded cases and compare the answers."),
        "completion": ("scheduler.cli.completion", "Print the shell completion script."),
    },
}
"""By what a user wants: name to (module, which has `command`; what help says)."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


_READING = tuple(
    [name]
    for name in (
        *("allocate", "audit", "cel", "claims", "defrag", "dump"),
        *("explain", "fit", "lint", "plan", "status", "whatif"),
    )
)
"""Subcommands that read files: what they produce is kept until they end, and is garbage all at once then."""


class _Lazy(click.Group):
    """A group that imports a subcommand when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # which offers what is imported, thus nothing
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None
        # A shell asks for the value of the last option: without it, click does not look at the arguments before it.
        return name, command, rest[:-1] if ctx.resilient_parsing and rest and rest[-1].startswith("-") else rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        with ending_quietly():
            return super().invoke(ctx)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(description(), prog_name="dra")
@click.pass_context
def dra(context: click.Context) -> None:
    """Device allocation for Kubernetes (DRA): which devices a claim gets, on which node, and why a pod stays pending.

    \b
    Examples:
      dra allocate cluster.yaml pending.yaml
      dra explain ml/train-0 cluster.yaml pending.yaml
      dra scheduler run --dry-run
      dra verify allocation cases.jsonl
    """  # noqa: D301 - \b is click's mark for text that it must not wrap
    if os.environ.get("NO_COLOR"):  # no-color.org; click asks the terminal alone
        context.color = False


_ON_A_CLUSTER: Mapping[str, str] = {
    "": "status\nexplain train-0\nexplain deploy/web -n ml\nclaims -A\nwhatif --overlay drain:gpu-07",
    "allocate": "allocate\nallocate --pod train-0",
    "audit": "audit",
    "cel": "cel 'device.driver == \"gpu.example.com\"'",
    "claims": "claims\nclaims -A",
    "defrag": "defrag --for train-0\ndefrag --largest gpu.example.com",
    "explain": "explain train-0\nexplain pod train-0 -n ml\nexplain claim/shared\nexplain deploy/web",
    "fit": "fit pod/train-0\nfit train.yaml",
    "lint": "lint",
    "status": "status\nstatus --by node\nstatus --watch",
    "whatif": "whatif --overlay drain:gpu-07",
}
"""Examples of each subcommand on the cluster of the context, a line each; those of the program itself by no name."""


class _PluginHelp(click.HelpFormatter):
    """Help with examples that call the plugin, those on the cluster of the context first."""

    def getvalue(self) -> str:
        text = super().getvalue()
        usage = re.match(rf"Usage: {KUBECTL_DRA}(?: (\w+))?", text)
        examples = _ON_A_CLUSTER.get(usage[1] or "", "").splitlines() if usage else []
        text = _EXAMPLES.sub(lambda found: found[0] + "".join(f"dra {line}\n{found[1]}" for line in examples), text)
        return re.sub(r"(^ +|\| )dra ", rf"\1{KUBECTL_DRA} ", text, flags=re.MULTILINE)


_EXAMPLES = re.compile(r"^ *Examples:\n( +)", re.MULTILINE)


def kubectl_plugin() -> None:
    """The program `kubectl-dra`, which kubectl runs for `kubectl dra`."""
    click.Context.formatter_class = _PluginHelp
    main(KUBECTL_DRA)


def main(name: str = "dra") -> None:
    """The program. name: as users call it."""
    try:
        verify()
    except InstallationError as error:
        stop(str(error))
    # numpy's library for linear algebra, which is not used here, would start a thread for each processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    is_reading = sys.argv[1:2] in _READING
    if is_reading:
        garbage.filling()
    try:
        with ending_quietly():
            dra(prog_name=name)
    except SystemExit as end:
        if is_reading and isinstance(end.code, int):
            leave(end.code)
        raise
