"""The formats of names, versions and labels."""

from collections.abc import Callable

import pytest

from allocator.api import names

VALID: list[tuple[Callable[[str], str], list[str]]] = [
    (names.short_name, ["a", "0", "gpu-0", "a" * 63, "a--b"]),
    (names.long_name, ["a", "node-1.example.com", "a" * 253, "0.0"]),
    (names.driver_name, ["gpu.example.com", "GPU.Example.com", "a" * 63]),
    (names.pool_name, ["node-1", "rack.example/node-1", "a/b/c"]),
    (names.identifier, ["a", "_", "cudaComputeCapability", "A_1", "a" * 32]),
    (names.qualified_name, ["model", "gpu.example.com/model", "Gpu.example.com/model", "a/b/c"]),
    (names.fully_qualified_name, ["gpu.example.com/model"]),
    (names.label_key, ["a", "example.com/a", "A_b.c-d", "example.com/" + "a" * 63]),
    (names.label_value, ["", "a", "A_b.c-d", "a" * 63]),
    (names.extended_resource_name, ["example.com/gpu"]),
    (names.uuid, ["00000000-1111-4222-8333-abcdefabcdef"]),
    (
        names.version,
        ["1.2.3", "0.0.0", "1.2.3-rc.1", "1.2.3-0a", "1.2.3--", "1.2.3-alpha.0+build.007", "1.2.3+007", "1.2.3-x-y"],
    ),
]
INVALID: list[tuple[Callable[[str], str], list[str]]] = [
    (names.short_name, ["", "-a", "a-", "A", "a.b", "a_b", "ä", "a" * 64, "a\n"]),
    (names.long_name, ["", ".a", "a.", "a..b", "A", "a/b", "a" * 254, "a\n"]),
    (names.driver_name, ["", "a/b", "-a", "a" * 64]),
    (names.pool_name, ["", "/a", "a/", "a//b", "A", "a" * 254]),
    (names.identifier, ["", "0a", "a-b", "a.b", "ä", "a" * 33, "a\n"]),
    (names.qualified_name, ["", "/a", "a/", "a/b-c", "-a/b", "a-b", "example.com/" + "a" * 33]),
    (names.fully_qualified_name, ["", "model", "/model", "gpu.example.com/"]),
    (names.label_key, ["", "/a", "a/", "a/b/c", "-a", "a-", "Example.com/a", "example.com/" + "a" * 64]),
    (names.label_value, ["-a", "a-", "a b", "a" * 64, "ä"]),
    (
        names.extended_resource_name,
        ["gpu", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "requests.a.example/b", "a/b c"],
    ),
    (names.uuid, ["", "00000000-1111-4222-8333-ABCDEFABCDEF", "000000001111422283330123456789ab"]),
    (names.version, ["", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.02.3", "1.2.03", "1.2.3\n", "\u0661.2.3"]),
    (names.version, ["1.2.3-01", "1.2.3-a.01", "1.2.3-", "1.2.3+", "1.2.3-a..b", "1.2.3+a..b", "1.2.3 ", "1.2.3-ä"]),
]


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in VALID for text in texts])
def test_valid_text_has_no_problem(rule: Callable[[str], str], text: str) -> None:
    assert rule(text) == ""


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in INVALID for text in texts])
def test_invalid_text_has_a_problem(rule: Callable[[str], str], text: str) -> None:
    assert rule(text) != ""


def test_lengths_count_bytes() -> None:
    assert names.too_long("ä" * 32, 64) == ""
    assert names.too_long("ä" * 33, 64) == "must not be longer than 64 bytes, is 66"


@pytest.mark.parametrize("rule", [names.short_name, names.long_name, names.version, names.label_key, names.pool_name])
def test_long_hostile_text_is_refused_in_a_moment(rule: Callable[[str], str]) -> None:
    assert rule("a" + "-" * 1_000_000) != ""
    assert rule("1.2.3-" + "0" * 1_000_000) != ""
