import pytest

from cel.memo import Memo


def kept(memo: Memo[str, str], *keys: str) -> list[str]:
    """Those of the keys that are there; the rest are made anew, and the last of them stay."""
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    for key in keys:
        assert memo.get(key, len(key), lambda key=key: make(key)) == key.upper()  # type: ignore[misc]
    return [key for key in keys if key not in made]


def test_value_is_made_once() -> None:
    memo: Memo[str, str] = Memo(2, 100)
    assert kept(memo, "a") == []
    assert kept(memo, "a") == ["a"]
    assert (memo.hits, memo.misses, len(memo), memo.weight) == (1, 1, 1, 1)


def test_least_recently_used_key_is_forgotten_where_there_are_too_many() -> None:
    memo: Memo[str, str] = Memo(2, 100)
    kept(memo, "a", "b", "a", "c")
    assert kept(memo, "a", "c") == ["a", "c"]
    assert kept(memo, "b") == []


def test_least_recently_used_keys_are_forgotten_until_the_rest_weighs_no_more_than_it_may() -> None:
    memo: Memo[str, str] = Memo(100, 10)
    kept(memo, "aaaa", "bbbb", "cc", "aaaa", "dddd")
    assert (len(memo), memo.weight) == (3, 10)
    assert kept(memo, "cc", "aaaa", "dddd") == ["cc", "aaaa", "dddd"]


def test_single_value_is_kept_however_heavy() -> None:
    memo: Memo[str, str] = Memo(100, 10)
    kept(memo, "a", "b" * 11)
    assert kept(memo, "b" * 11) == ["b" * 11]
    assert len(memo) == 1


def test_nothing_is_kept_of_what_fails() -> None:
    memo: Memo[str, str] = Memo(1, 1)
    with pytest.raises(ZeroDivisionError):
        memo.get("a", 1, lambda: str(1 // 0))
    assert (len(memo), memo.weight) == (0, 0)
    assert kept(memo, "a") == []
