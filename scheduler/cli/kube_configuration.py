"""Reads the file with kube-scheduler's configuration for a command."""

from pathlib import Path

from scheduler.cli.ending import stop
from scheduler.kube_scheduler.configuration import KIND, KubeSchedulerConfiguration, read
from scheduler.runtime.configuration import InvalidConfiguration, the_object


def kube_configuration(file: Path) -> KubeSchedulerConfiguration:
    """What it says; the command ends where kube-scheduler could not read it."""
    try:
        raw = the_object(file, KIND)
    except InvalidConfiguration as invalid:
        stop(*invalid.problems)
    found, errors = read(raw)
    if found is None:
        stop(*(f"{file}: {error}" for error in errors))
    return found
