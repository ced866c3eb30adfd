"""Property tests look at what comes out, never at how long an example takes: that is up to the machine.

The gate tries the same examples each time, so that it tells of a change and of nothing else. Others are tried with
`pytest --hypothesis-profile=random`.

Several processes may run the tests (`pytest -n auto`), but only one of them those with a control plane: they wait more
than they compute, and one control plane is enough.
"""

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("random", deadline=None, derandomize=False)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")


class OneControlPlane(LoadScopeScheduling):  # type: ignore[misc] # has no types
    """All integration tests go to one process; the others go file by file to the process that is free."""

    def _split_scope(self, nodeid: str) -> str:
        folder = "tests/integration/"
        return folder if nodeid.startswith(folder) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneControlPlane:
    return OneControlPlane(config, log)
