"""Several replicas of the scheduler, of which one leads: who does, and why one has ended."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial

import pytest

from tests.controlplane.ours import Program, Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.process import StartError
from tests.controlplane.rest import Json, Kind

LEASE = Kind("coordination.k8s.io/v1", "Lease")
SHORT: Mapping[str, float] = {"leaseDurationSeconds": 4, "renewDeadlineSeconds": 3, "retryPeriodSeconds": 0.5}
LONG: Mapping[str, float] = {"leaseDurationSeconds": 3600, "renewDeadlineSeconds": 1800, "retryPeriodSeconds": 0.5}
DEFAULT: Mapping[str, float] = {}
"""Durations of a Lease: so short that a test need not wait, so long that nothing lets go of it, and as they come."""

Start = Callable[..., Scheduler]
"""Starts a replica of the name, by default with SHORT; the fixture `start`."""


def is_leading(program: Program) -> bool:
    status = r'^leader_election_master_status{name="dra-scheduler"} (\S+)$'
    found = re.search(status, program.reported("/metrics"), re.MULTILINE)
    assert found
    return float(found[1]) == 1


def await_leading(program: Program) -> None:
    poll_until(bool, partial(is_leading, program), f"{program.name} leads")


def lease(plane: ControlPlane) -> Json:
    spec: Json = plane.client().get(LEASE, "dra-scheduler", "kube-system")["spec"]
    return spec


def ended(program: Scheduler) -> Json:
    """Why a program has ended by itself."""
    with pytest.raises(StartError):
        program.await_ready(lambda: False)
    lines: list[Json] = [json.loads(line) for line in program.log.read_text().splitlines()]
    *_, why = (line for line in lines if line["logger"] == "scheduler.runtime.running" and line["level"] == "error")
    return why
