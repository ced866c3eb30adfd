"""What our scheduler may do: exactly what `manifests/base` grants, so that tests run with no more."""

from pathlib import Path

from tests.controlplane.contents import manifests, restore
from tests.controlplane.rest import RestClient

BASE = Path(__file__).resolve().parents[2] / "manifests" / "base"


def grant(api: RestClient) -> None:
    """Give the identity `OURS` the rights of the manifests, until the control plane is cleared."""
    restore(api, manifests(BASE / "rbac.yaml", BASE / "preemption" / "preemption-rbac.yaml"))
