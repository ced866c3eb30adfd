"""Property tests look at what comes out, never at how long an example takes: that is up to the machine.

The gate tries the same examples each time, so that it tells of a change and of nothing else. Others are tried with
`pytest --hypothesis-profile=random`, as `make nightly` does.
"""

import gc
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

settings.register_profile("random", deadline=None, derandomize=False)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "depends_on(*paths): all that the test depends on, for the gate, which leaves it out if unchanged"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: garbage collectors, ours in tests above all, need not walk ten thousand tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture
def hears_control_c() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and so does what that starts, unless it is told not to."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
