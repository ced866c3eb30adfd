"""`dra verify`: recorded cases with the reference's answers, replayed."""

import click

from scheduler.cli.verify_allocation import command as allocation
from scheduler.cli.verify_cel import command as cel
from scheduler.cli.verify_scheduling import command as scheduling


@click.group(name="verify")
def command() -> None:
    """Replay recorded cases and compare the answers.

    Each subcommand prints the cases that differ, and last a line that begins with
    `N passed, M failed, K skipped`.
    """


command.add_command(allocation)
command.add_command(cel)
command.add_command(scheduling)
