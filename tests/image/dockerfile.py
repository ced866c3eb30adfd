"""The instructions of a Dockerfile, as far as ours uses them."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


class UnknownInstruction(Exception):
    """The Dockerfile has an instruction that is not carried out here."""


@dataclass(slots=True)
class Stage:
    """What one FROM begins. steps: RUN and COPY, in their order. environment: $PATH in a value is that of the base."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)


def stages(path: Path) -> list[Stage]:
    """The stages of the file. Raises UnknownInstruction."""
    found: list[Stage] = []
    for word, rest in _instructions(path.read_text()):
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(base, name))
        else:
            _add(found[-1], word, rest)
    return found


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\s*\\\n\s*", " ", lines).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word, rest.strip()


def _add(stage: Stage, word: str, rest: str) -> None:
    if word in ("RUN", "COPY"):
        stage.steps.append((word, rest))
    elif word == "ENV":
        stage.environment |= dict(one.split("=", 1) for one in shlex.split(rest))
    elif word == "WORKDIR":
        stage.folder = rest
    elif word == "USER":
        stage.user = rest
    elif word == "ENTRYPOINT":
        stage.entrypoint = json.loads(rest)
    elif word != "EXPOSE":
        raise UnknownInstruction(f"{word} {rest}")
