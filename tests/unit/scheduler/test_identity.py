import re
import uuid

import pytest

from scheduler.input.identity import generate_name, generated, uid_of


def test_a_uid_is_the_same_on_every_run_and_differs_by_kind_namespace_and_name() -> None:
    assert uid_of("Pod", "ml", "p") == "fde4a8c7-959f-55d1-a402-1daf728467d0"
    assert (
        len({uid_of(*key) for key in (("Pod", "ml", "p"), ("Pod", "ml", "q"), ("Pod", "a", "p"), ("Job", "ml", "p"))})
        == 4
    )


def test_a_uid_is_a_uuid_of_version_5() -> None:
    namespace = uuid.UUID("8f0e5c1e-6d5d-5f0a-9d57-2f4b1f1d6f0b")
    for name in map(str, range(100)):
        assert uid_of("Pod", "ml", name) == str(uuid.uuid5(namespace, f"Pod/ml/{name}"))


def test_a_generated_name_is_the_same_on_every_run() -> None:
    assert generated("train-0-dev-", "ml/train-0/dev") == generated("train-0-dev-", "ml/train-0/dev")
    assert generated("train-0-dev-", "ml/train-0/dev") == "train-0-dev-nxmzv"


def test_a_generated_name_ends_in_five_letters_of_the_api_servers_alphabet() -> None:
    names = [generated("p-", str(seed)) for seed in range(200)]
    assert all(re.fullmatch(r"p-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    assert len(set(names)) == 200


def test_a_short_name_is_kept_whole() -> None:
    assert generate_name("train-0", "dev") == "train-0-dev-"
    assert generate_name("p" * 50, "e" * 5) == "p" * 50 + "-" + "e" * 5 + "-"


@pytest.mark.parametrize(
    ("pod", "entry", "base"),
    [
        # 58 characters: 51 * 57 // 58 = 50, and 5 * 57 // 58 = 4
        ("p" * 51, "e" * 5, "p" * 50 + "-" + "e" * 4),
        # 67 characters: 60 * 57 // 67 = 51, and 5 * 57 // 67 = 4
        ("p" * 60, "e" * 5, "p" * 51 + "-" + "e" * 4),
        # 318 characters: 253 * 57 // 318 = 45, and 63 * 57 // 318 = 11
        ("p" * 253, "e" * 63, "p" * 45 + "-" + "e" * 11),
    ],
)
def test_long_names_are_cut_in_proportion_as_the_claim_controller_cuts_them(pod: str, entry: str, base: str) -> None:
    assert generate_name(pod, entry) == base


@pytest.mark.parametrize("length", [1, 30, 50, 57, 63, 253])
def test_a_generated_name_is_never_longer_than_a_label(length: int) -> None:
    name = generated(generate_name("p" * length, "e" * min(length, 63)), "seed")
    assert len(name) <= 63
