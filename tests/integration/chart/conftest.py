"""helm, built by Go from the module in this folder; Go keeps what it has compiled in its own cache."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.chart.helm import Helm

PACKAGE = "helm.sh/helm/v4/cmd/helm"


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    if shutil.which("go") is None:
        pytest.skip("no Go to build helm with: the chart is not rendered")
    folder = tmp_path_factory.mktemp("helm")
    flags = ["-mod=readonly", "-trimpath", "-ldflags=-s -w"]
    command: list[str | Path] = ["go", "build", *flags, "-o", folder / "helm", PACKAGE]
    subprocess.run(command, cwd=Path(__file__).parent, check=True)
    return Helm(folder / "helm", folder)
