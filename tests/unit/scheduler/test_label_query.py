"""Selectors of `-l`, as kubectl reads them."""

import pytest

from scheduler.core_v1.label_selectors import InvalidLabelQuery, requirements, selects

LABELS = {"app": "train", "tier": "gold", "weight": "7", "example.com/team": "vision", "empty": ""}


@pytest.mark.parametrize(
    ("query", "is_selected"),
    [
        ("", True),
        ("app=train", True),
        ("app==train", True),
        ("app = train , tier in (gold, silver)", True),
        ("app=serve", False),
        ("app!=serve", True),
        ("app!=train", False),
        ("absent!=x", True),
        ("tier notin (gold,silver)", False),
        ("absent notin (a)", True),
        ("tier", True),
        ("absent", False),
        ("!absent", True),
        ("! tier", False),
        ("example.com/team=vision", True),
        ("empty=", True),
        ("app=", False),
        ("weight>6", True),
        ("weight<7", False),
        ("app=train,!tier", False),
        ("in in (a)", False),
        ("empty in ()", True),
    ],
)
def test_selects_as_kubectl_does(query: str, is_selected: bool) -> None:  # noqa: FBT001 - a case of the table
    assert selects(requirements(query), LABELS) is is_selected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("app=a b", "'app=a b' is not key=value"),
        (",app", "',app' is not key=value"),
        ("app,", "'app,' ends with a comma"),
        ("app in (a", "'app in (a' is not"),
        ("app=-a", "a valid label must be"),
        ("a/b/c=d", "key: Invalid value"),
        ("weight>heavy", "'heavy' is not a whole number"),
        ("=", "'=' is not key=value"),
    ],
)
def test_what_is_no_selector_is_named(query: str, said: str) -> None:
    with pytest.raises(InvalidLabelQuery) as raised:
        requirements(query)
    assert said in str(raised.value)
