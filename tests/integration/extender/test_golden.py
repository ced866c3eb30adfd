"""What kube-scheduler sends to an extender is what was recorded of it, and what `scheduler.extender.wire` reads."""

from collections.abc import Iterator

import pytest

from scheduler.core_v1.pod import decode_pod
from scheduler.extender import wire
from tests.controlplane.contents import clear
from tests.controlplane.plane import ControlPlane
from tests.integration.extender import golden
from tests.integration.extender.recorder import VERBS

FORMS = pytest.mark.parametrize("with_names", [True, False], ids=["names", "objects"])


@pytest.fixture
def empty(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, empty again afterwards."""
    yield plane
    golden.forget_priorities(plane.client())
    clear(plane, with_rights=False)


@FORMS
def test_kube_scheduler_sends_what_was_recorded_of_it(empty: ControlPlane, *, with_names: bool) -> None:
    sent = {verb: golden.shape(request) for verb, request in golden.record(empty, with_names=with_names)}
    assert sent == {verb: golden.shape(golden.kept(verb, with_names=with_names)) for verb in VERBS}


@FORMS
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_pod_and_nodes_are_read_in_either_form(verb: str, *, with_names: bool) -> None:
    body = golden.path_of(verb, with_names=with_names).read_bytes()
    args = wire.read(wire.ExtenderArgs, body)
    assert sorted(wire.names_of(args)) == list(golden.NODES)
    pod, errors = decode_pod(args.Pod, keeps_raw=False)
    assert pod is not None, errors
    assert (str(pod), pod.scheduler_name) == ("golden/pod", "default-scheduler")
    assert [entry.name for entry in pod.claims] == ["own", "made"]
    assert pod.claim_statuses == {"made": "pod-made-xxxxx"}


@FORMS
def test_victims_are_read_in_either_form(*, with_names: bool) -> None:
    args = wire.read(wire.ExtenderPreemptionArgs, golden.path_of("preempt", with_names=with_names).read_bytes())
    victims = wire.meta_victims(args)
    assert {node: one.NumPDBViolations for node, one in victims.items()} == {"node-0": 1, "node-1": 0}
    uids = [victim.UID for one in victims.values() for victim in one.Pods or ()]
    assert len(set(uids)) == len(uids) == 2
    assert all(uids)


@FORMS
def test_binding_is_read(*, with_names: bool) -> None:
    args = wire.read(wire.ExtenderBindingArgs, golden.path_of("bind", with_names=with_names).read_bytes())
    assert (args.PodNamespace, args.PodName) == ("golden", "pod")
    assert args.Node in golden.NODES
    assert args.PodUID
