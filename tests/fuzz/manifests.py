"""Manifests that anybody may have written: the example fleets, with values of other shapes, and broken as texts.

`dra allocate` has to place what it can and say what is wrong, with one of its exit codes.
"""

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from click.testing import CliRunner

from scheduler.cli.main import dra
from tests.controlplane.contents import manifests
from tests.fuzz.mutation import as_text, changed_json, changed_text
from tests.fuzz.target import FuzzTarget

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"
FLEETS = ("fleet", "scheduler", "statefulset", "migration")
CODES = (0, 1, 2)
COMMANDS = (["allocate", "-"], ["allocate", "-o", "json", "-"], ["status", "-"], ["lint", "-"], ["audit", "-"])
YAML = ("---\n", ": ", "- ", "&a ", "*a", "!!binary ", "<<: ", "|\n", "'", '"', "\t", "2026-01-01", "0x1F", ".inf", "?")


@cache
def fleets() -> list[tuple[list[Any], str]]:
    """Each example as objects, and as its texts."""
    folders = [EXAMPLES / name for name in FLEETS]
    texts = ["---\n".join(path.read_text() for path in sorted(folder.glob("*.yaml"))) for folder in folders]
    return [([dict(one) for one in manifests(folder)], text) for folder, text in zip(folders, texts, strict=True)]


def broken(rng: Random) -> str:
    """A fleet of which something is not as it should be."""
    objects, text = rng.choice(fleets())
    if rng.random() < 0.3:
        return changed_text(rng, text, YAML, text[: rng.randrange(200)])
    return as_text(rng, {"apiVersion": "v1", "kind": "List", "items": changed_json(rng, objects)})


def is_placed(text: str) -> bool:
    """Whether all of it was placed."""
    command = Random(len(text)).choice(COMMANDS)  # noqa: S311 - no secret
    result = CliRunner().invoke(dra, command, input=text.encode(errors="surrogatepass"), prog_name="dra")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in CODES, (command, result.exit_code, result.stderr)
    if command[1:3] == ["-o", "json"] and result.stdout:
        json.loads(result.stdout)
    return result.exit_code == 0


TARGET = FuzzTarget(broken, is_placed, longest_s=60)
