"""A plugin that hangs while the API server refuses what it gave before: all that can go on does, and it is told."""

import errno
import json
import os
import sys
from pathlib import Path

import pytest

from tests.controlplane.faults import refuse
from tests.controlplane.identities import OURS
from tests.controlplane.ours import WITHOUT_LEASE, Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.proxy import Proxy

API_VERSION = "client.authentication.k8s.io/v1"


class ExecPlugin:
    """An exec plugin that gives a token each time it is let, and hangs until then."""

    def __init__(self, folder: Path, token: str) -> None:
        self._answers = folder / "answers"
        os.mkfifo(self._answers)
        status = {"token": token, "expirationTimestamp": "2999-01-01T00:00:00Z"}
        self._answer = json.dumps({"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status})
        program = f"print(open({str(self._answers)!r}).read())"
        self.user = {"exec": {"apiVersion": API_VERSION, "command": sys.executable, "args": ["-c", program]}}

    def let(self) -> None:
        """Returns once it has run and given the token."""
        writing = poll_until(lambda end: end is not None, self._opened, "that the plugin runs")
        assert writing is not None
        with os.fdopen(writing, "w") as answers:
            answers.write(self._answer)

    def _opened(self) -> int | None:
        try:
            return os.open(self._answers, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads
                raise
            return None


@pytest.fixture
def plugin(plane: ControlPlane, tmp_path: Path) -> ExecPlugin:
    return ExecPlugin(tmp_path, plane.token_file(OURS).read_text())


def test_plugin_that_hangs_is_reported_and_the_program_goes_on_when_it_answers(
    plane: ControlPlane, proxy: Proxy, plugin: ExecPlugin, tmp_path: Path
) -> None:
    config = json.loads(proxy.kubeconfig(OURS).read_text())
    config["users"][0]["user"] = plugin.user
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    # A lease that is written meanwhile would say that the server knows us: only reads are refused here.
    program = Scheduler(plane, WITHOUT_LEASE, kubeconfig=kubeconfig)
    try:
        plugin.let()
        program.await_readyz()
        proxy.on("GET", "", refuse(401, "Unauthorized"), times=None)
        proxy.cut_watches()
        failed = "[-]credentials failed: the API server does not accept them"
        poll_until(
            lambda reported: failed in reported, lambda: program.reported("/readyz"), "that it is refused is told"
        )
        assert program.reported("/livez") == "ok"
        proxy.forget_rules()
        plugin.let()
        program.await_readyz()
    finally:
        program.stop()
    assert program.exit_code == 0
