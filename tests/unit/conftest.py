import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def hears_control_c() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and so does what that starts, unless it is told not to."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
