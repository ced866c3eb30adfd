"""`dra completion`: the completion script for a shell."""

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

_USE = {
    "bash": 'eval "$(dra completion bash)"',
    "zsh": 'eval "$(dra completion zsh)"',
    "fish": "dra completion fish | source",
}


_FILES, _NO_FILES = ":0", ":4"
"""What kubectl's shell does beside offering the suggestions: cobra's ShellCompDirective."""


def kubectl_complete() -> None:
    """The program `kubectl_complete-dra`, which kubectl calls with the words after `kubectl dra`."""
    from scheduler.cli.main import dra

    *words, incomplete = sys.argv[1:] or [""]
    completions = ShellComplete(dra, {}, "dra", "").get_completions(words, incomplete)
    plain = [one for one in completions if one.type == "plain"]
    lines = [f"{one.value}\t{one.help}" if one.help else str(one.value) for one in plain]
    click.echo("\n".join([*lines, _NO_FILES if len(plain) == len(completions) else _FILES]))


@click.command(name="completion", epilog='\b\nExample:\n  eval "$(dra completion bash)"')
@click.argument("shell", type=click.Choice(sorted(_USE)))
def command(shell: str) -> None:
    """Print the script that completes commands, options, policies, gates, namespaces, pods and files in SHELL.

    \b
    To have it in every shell, add one line to its start-up file:
      ~/.bashrc:                   eval "$(dra completion bash)"
      ~/.zshrc:                    eval "$(dra completion zsh)"
      ~/.config/fish/config.fish:  dra completion fish | source

    `kubectl dra` is completed by kubectl's own script: kubectl completion --help.
    """  # noqa: D301 - \b is click's mark for text that it must not wrap
    from scheduler.cli.main import dra

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(dra, {}, "dra", "_DRA_COMPLETE").source())
