import pytest

from cel.cache import LruCache


def kept(cache: LruCache[str, str], *keys: str) -> list[str]:
    """Those of the keys that are there; the rest are made anew, and the last of them stay."""
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    for key in keys:
        assert cache.get(key, len(key), lambda key=key: make(key)) == key.upper()  # type: ignore[misc]
    return [key for key in keys if key not in made]


def test_value_is_made_once() -> None:
    cache: LruCache[str, str] = LruCache(2, 100)
    assert kept(cache, "a") == []
    assert kept(cache, "a") == ["a"]
    assert (len(cache), cache.weight) == (1, 1)


def test_least_recently_used_key_is_forgotten_where_there_are_too_many() -> None:
    cache: LruCache[str, str] = LruCache(2, 100)
    kept(cache, "a", "b", "a", "c")
    assert kept(cache, "a", "c") == ["a", "c"]
    assert kept(cache, "b") == []


def test_least_recently_used_keys_are_forgotten_until_the_rest_weighs_no_more_than_it_may() -> None:
    cache: LruCache[str, str] = LruCache(100, 10)
    kept(cache, "aaaa", "bbbb", "cc", "aaaa", "dddd")
    assert (len(cache), cache.weight) == (3, 10)
    assert kept(cache, "cc", "aaaa", "dddd") == ["cc", "aaaa", "dddd"]


def test_single_value_is_kept_however_heavy() -> None:
    cache: LruCache[str, str] = LruCache(100, 10)
    kept(cache, "a", "b" * 11)
    assert kept(cache, "b" * 11) == ["b" * 11]
    assert len(cache) == 1


def test_nothing_is_kept_of_what_fails() -> None:
    cache: LruCache[str, str] = LruCache(1, 1)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", 1, lambda: str(1 // 0))
    assert (len(cache), cache.weight) == (0, 0)
    assert kept(cache, "a") == []
