"""`dra completion`: the completion script for a shell."""

import click
from click.shell_completion import get_completion_class

_USE = {
    "bash": 'eval "$(dra completion bash)"',
    "zsh": 'eval "$(dra completion zsh)"',
    "fish": "dra completion fish | source",
}


@click.command(name="completion")
@click.argument("shell", type=click.Choice(sorted(_USE)))
def command(shell: str) -> None:
    """Print the script that completes commands, options and files in SHELL.

    \b
    To have it in every shell, add one line to its start-up file:
      ~/.bashrc:                   eval "$(dra completion bash)"
      ~/.zshrc:                    eval "$(dra completion zsh)"
      ~/.config/fish/config.fish:  dra completion fish | source
    """  # noqa: D301 - \b is click's mark for text that it must not wrap
    from scheduler.cli.main import dra

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(dra, {}, "dra", "_DRA_COMPLETE").source())
