import pytest

from allocator.words import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("gpus", ["gpu", "nic"], "; did you mean gpu?"),
        ("gpu", ["gpu", "nic"], ""),
        ("GPU", ["gpu"], "; did you mean gpu?"),
        ("gpu-larg", ["gpu-small", "gpu-large", "gpu-larger"], "; did you mean gpu-large or gpu-larger?"),
        ("fpga", ["gpu", "nic"], ""),
        ("gpu", [], ""),
    ],
)
def test_names_that_are_like_it_are_offered_the_likest_first(name: str, known: list[str], expected: str) -> None:
    assert did_you_mean(name, known) == expected
