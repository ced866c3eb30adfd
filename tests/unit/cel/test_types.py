import pytest

from cel.values import types
from cel.values.types import (
    BOOL,
    DYN,
    INT,
    NULL,
    STRING,
    Substitution,
    Type,
    TypeTooLargeError,
    list_of,
    map_of,
    parameter,
)

A, B = parameter("A"), parameter("B")


def test_equal_types_are_one_object() -> None:
    assert map_of(STRING, list_of(INT)) is map_of(STRING, list_of(INT))
    assert types.nullable(INT) is not INT


def test_type_prints_as_in_messages() -> None:
    assert str(map_of(STRING, types.optional_of(types.TIMESTAMP))) == "map(string, optional_type(timestamp))"
    assert str(types.nullable(BOOL)) == "wrapper(bool)"
    assert str(types.QUANTITY) == "kubernetes.Quantity"


def test_types_do_not_grow_without_bound() -> None:
    shared: Type = INT
    for _ in range(9):
        shared = map_of(shared, shared)
    assert shared.size == 1023
    with pytest.raises(TypeTooLargeError):
        map_of(shared, shared)


@pytest.mark.parametrize(
    ("target", "source", "fits"),
    [
        (INT, INT, True),
        (INT, STRING, False),
        (DYN, STRING, True),
        (STRING, DYN, True),
        (list_of(INT), list_of(DYN), True),
        (list_of(INT), list_of(STRING), False),
        (map_of(STRING, INT), list_of(INT), False),
        (types.QUANTITY, NULL, True),
        (INT, NULL, False),
        (types.nullable(INT), NULL, True),
        (types.nullable(INT), INT, True),
        (types.QUANTITY, types.SEMVER, False),
        (types.type_of_type(INT), types.type_of_type(STRING), True),
    ],
)
def test_assignment(target: Type, source: Type, *, fits: bool) -> None:
    assert Substitution().assign(target, source) is fits


def test_parameter_stands_for_one_type_in_a_signature() -> None:
    substitution = Substitution()
    assert substitution.assign_all((A, A), (INT, INT))
    assert not Substitution().assign_all((A, A), (INT, STRING))
    assert substitution.apply(list_of(A), free_to_dyn=False) is list_of(INT)


def test_failed_assignment_leaves_no_trace() -> None:
    substitution = Substitution()
    assert not substitution.assign_all((A, INT), (STRING, STRING))
    assert substitution.assign(A, INT)
    assert substitution.apply(A, free_to_dyn=False) is INT


def test_more_general_type_wins() -> None:
    substitution = Substitution()
    assert substitution.assign_all((A, A), (INT, DYN))
    assert substitution.apply(A, free_to_dyn=False) is DYN


def test_parameter_never_stands_for_a_type_that_holds_it() -> None:
    assert not Substitution().assign(A, list_of(A))


def test_free_parameter_becomes_dyn_at_the_end() -> None:
    assert Substitution().apply(map_of(A, B), free_to_dyn=True) is map_of(DYN, DYN)
