from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.peer import Peer, built_or_skipped


@pytest.fixture(scope="session")
def peer_program() -> Path:
    return built_or_skipped()


@pytest.fixture(scope="session")
def cel_peer(peer_program: Path) -> Iterator[Peer]:
    with Peer(peer_program, "cel") as peer:
        yield peer


@pytest.fixture(scope="session")
def allocate_peer(peer_program: Path) -> Iterator[Peer]:
    with Peer(peer_program, "allocate") as peer:
        yield peer
