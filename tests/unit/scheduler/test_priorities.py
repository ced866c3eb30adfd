import pytest

from scheduler.core_v1.node import PriorityClass, decode_priority_class
from scheduler.core_v1.pod import Pod
from scheduler.offline.input_claims import Priorities
from tests.unit.scheduler.manifests import Json, an_object

HIGH, LOW = PriorityClass("high", 100), PriorityClass("low", -5, is_default=True)


def a_priority_class(name: str = "high", **fields: object) -> Json:
    return {**an_object("scheduling.k8s.io/v1", "PriorityClass", name), **fields}


def priority(*, given: int | None = None, name: str = "", classes: tuple[PriorityClass, ...] = (HIGH,)) -> int:
    return Priorities(classes).of(Pod("default", "p", priority=given, priority_class=name))


def test_a_priority_that_the_pod_has_stays() -> None:
    assert priority(given=7, name="high") == 7
    assert priority(given=0, classes=(LOW,)) == 0


def test_a_class_of_the_input_says_the_priority() -> None:
    assert priority(name="high") == 100


@pytest.mark.parametrize(
    ("name", "value"), [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
)
def test_every_cluster_has_two_classes(name: str, value: int) -> None:
    assert priority(name=name, classes=()) == value


def test_a_pod_without_a_class_has_the_default_one() -> None:
    assert priority(classes=()) == 0
    assert priority(classes=(HIGH, LOW)) == -5


def test_of_several_defaults_the_lowest_counts() -> None:
    assert priority(classes=(PriorityClass("a", 9, is_default=True), PriorityClass("b", 3, is_default=True))) == 3


def test_an_unknown_class_counts_as_0_and_is_known_to_be_unknown() -> None:
    assert priority(name="none", classes=(LOW,)) == 0
    priorities = Priorities([HIGH])
    pods = [Pod("d", "p", priority_class=name) for name in ("", "high", "system-node-critical", "none")]
    assert [priorities.knows(pod) for pod in pods] == [True, True, True, False]
    assert priorities.knows(Pod("d", "p", priority=1, priority_class="none"))


def test_a_priority_class_is_its_name_value_and_whether_it_is_the_default() -> None:
    assert decode_priority_class(a_priority_class(value=5)) == (PriorityClass("high", 5), ())
    assert decode_priority_class(a_priority_class(value=5, globalDefault=True))[0] == PriorityClass(
        "high", 5, is_default=True
    )


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (a_priority_class(), "value: is required"),
        (a_priority_class(value="5"), 'value: must be an integer (got "5")'),
        (a_priority_class("High", value=5), "metadata.name: must be a DNS subdomain"),
        (a_priority_class(value=5, globalDefault=1), "globalDefault: must be true or false (got 1)"),
    ],
)
def test_a_broken_priority_class_is_an_error(raw: Json, error: str) -> None:
    found, errors = decode_priority_class(raw)
    assert found is None
    assert str(errors[0]).startswith(error)
