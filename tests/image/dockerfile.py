"""The instructions of a Dockerfile, as far as ours uses them."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template


class UnknownInstruction(Exception):
    """The Dockerfile has an instruction that is not carried out here."""


ROOT = "0:0"
"""The user until there is another one."""


@dataclass(slots=True)
class Stage:
    """What one FROM begins. steps: RUN and COPY, in their order. environment: $PATH in a value is that of the base.

    base: as the arguments before the first FROM name it by default. user: of the container; steps are root's.
    """

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = ROOT
    entrypoint: list[str] = field(default_factory=list)


def stages(path: Path) -> list[Stage]:
    """The stages of the file. Raises UnknownInstruction."""
    found: list[Stage] = []
    arguments: dict[str, str] = {}
    for word, rest in _instructions(path.read_text()):
        if word == "ARG" and not found:
            arguments |= dict([rest.split("=", 1)])
        elif word == "FROM":
            base, _, name = Template(rest).substitute(arguments).partition(" AS ")
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
    if word == "RUN" and stage.user != ROOT:
        raise UnknownInstruction(f"{word} {rest} after USER {stage.user}")
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
