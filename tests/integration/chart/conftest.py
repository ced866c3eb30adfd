"""helm, built once by Go from the module in this folder."""

import os
from pathlib import Path

import pytest

from tests.controlplane.binaries import Unavailable, program_of
from tests.integration.chart.helm import Helm

PACKAGE = "helm.sh/helm/v4/cmd/helm"


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    arguments = ["-mod=readonly", "-trimpath", "-ldflags=-s -w", PACKAGE]
    try:
        program = program_of(Path(__file__).parent, "helm", arguments, os.environ, lambda _: None)
    except Unavailable as error:
        pytest.skip(f"the chart is not rendered: {error}")
    return Helm(program, tmp_path_factory.mktemp("helm"))
