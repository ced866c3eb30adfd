"""`dra verify`: recorded cases with the reference's answers, replayed."""

import click

from scheduler.cli.verify_allocation import command as allocation
from scheduler.cli.verify_cel import command as cel


@click.group(name="verify")
def command() -> None:
    """Replay recorded cases and compare the answers.

    Each subcommand prints the cases that differ, and last the line `N passed, M failed, K skipped`.
    """


command.add_command(allocation)
command.add_command(cel)
