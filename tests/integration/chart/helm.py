"""helm, and what it makes of the chart."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.chart.schema import CHART

RELEASE = "dra"
Values = Mapping[str, Any]
Objects = Sequence[Mapping[str, Any]]


class HelmError(Exception):
    """helm refused; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Helm:
    """The program. home: a folder for what it keeps."""

    program: Path
    home: Path

    def run(self, *arguments: str | Path, values: Values | None = None) -> str:
        """What it prints, given the values as a file is. Raises HelmError."""
        given = ["--values=-"] if values is not None else []
        places = {f"HELM_{kind}_HOME": str(self.home / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [self.program, *arguments, *given],
            input=json.dumps(values),
            env={**os.environ, **places},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise HelmError(done.stdout + done.stderr)
        return done.stdout

    def rendered(self, values: Values, namespace: str = "kube-system") -> Objects:
        """The objects of the chart."""
        text = self.run("template", RELEASE, CHART, f"--namespace={namespace}", values=values)
        return [obj for obj in documents(text) if obj]


def documents(text: str) -> list[Any]:
    """Of a YAML stream; read by libyaml, since pages of it are read."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


def document(text: str) -> Any:
    """The only one."""
    (found,) = documents(text)
    return found
