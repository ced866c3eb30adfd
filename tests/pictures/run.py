"""`make pictures`: the pages as a browser shows them, wide and narrow, light and dark; and the picture of the README.

All of them go to .cache/pictures, to be looked at; the README's, which is kept in the repository, to docs/pictures.
"""

import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

from tests.browser import MISSING, PROGRAM, Browser, browser
from tests.builders import a_pod, watched
from tests.controlplane.polling import poll_until
from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.output.shown import Program, a_holder, served

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "manifests" / "examples"
ALL, KEPT = ROOT / ".cache" / "pictures", ROOT / "docs" / "pictures"
WIDTHS, SCHEMES = (1400, 390), ("light", "dark")
MOST_HEIGHT = 6000
"""Of a picture, in pixels: what is further down looks alike."""

DRAWN = (
    'document.querySelectorAll(".node").length === 4 && /\\d/.test(document.querySelector("#drawn tbody").textContent)'
)
MAP_HEIGHT = "Math.ceil(document.querySelector('.map').closest('section').getBoundingClientRect().height) + 12"

SHOWN: Mapping[str, Sequence[str]] = {
    "status": ["status", "FLEET"],
    "claims": ["claims", "FLEET"],
    "explain": ["explain", "research/wish", "FLEET"],
    "explain-all": ["explain", "--all", "FLEET"],
    "fit": ["fit", "pod/inference/chat-0", "FLEET"],
    "whatif": ["whatif", "FLEET", "--overlay", "drain:gpu-a", "--overlay", "remove:node/cpu-a"],
    "lint": ["lint", "FLEET"],
    "audit": ["audit", "FLEET"],
    "simulate": ["simulate", "FLEET", "--policy", "first-fit", "--policy", "pack"],
    "nics": ["explain", "--all", "NICS"],
    "partitions": ["explain", "--all", "PARTITIONS"],
    "defrag": ["defrag", "FLEET", "FRAGMENTED", "--for", "training/wide"],
    "plan": ["plan", "FLEET", "PLAN/queue.yaml", "--node-groups", "PLAN/node-groups.yaml"],
    "group": ["explain", "group/ml/train", "GROUPS/fleet.yaml", "GROUPS/claims.yaml", "GROUPS/job.yaml"],
    "groups": [
        "status",
        "--by",
        "group",
        *(f"GROUPS/{name}.yaml" for name in ("fleet", "claims", "job", "raycluster")),
    ],
    "limits": ["status", "--by", "limit", "LIMITS/cluster.yaml", "PLACED", "--config", "LIMITS/config.yaml"],
}
"""The commands by the names of their pictures."""

PRESETS = {"NICS": ("nic", 8, 30), "PARTITIONS": ("mig", 4, 24)}
"""Inputs that are generated: preset, nodes and pods."""


def main() -> None:
    """The program."""
    if not PROGRAM:
        sys.exit(MISSING)
    ALL.mkdir(parents=True, exist_ok=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chdir(EXAMPLES):
        inputs = {title: _generated(title, Path(name)) for title in PRESETS}
        inputs["PLACED"] = _placed(Path(name))
        for title, command in SHOWN.items():
            page = Path(name, f"{title}.html")
            run = dra(*(_argument(one, inputs) for one in command), "-o", "html")
            page.write_text(run.out or sys.exit(f"{title}: {run.err}"))
            with browser(Path(name, f"profile-{title}")) as tab:
                for width, scheme in product(WIDTHS, SCHEMES):
                    tab.open(page, width, scheme=scheme)
                    _save(tab, ALL / f"{title}-{width}-{scheme}.png", _height(tab))
        with _served() as url, browser(Path(name, "profile-ui")) as tab:
            for width, scheme in product(WIDTHS, SCHEMES):
                tab.open(url, width, scheme=scheme)
                poll_until(bool, lambda: bool(tab.evaluate(DRAWN)), "the page of /ui")
                _save(tab, ALL / f"ui-{width}-{scheme}.png", _height(tab))
        with browser(Path(name, "profile")) as tab:
            _keep(tab, Path(name, "nics.html"))
    print(f"pictures of {len(SHOWN) + 1} pages are in {ALL}, and two in {KEPT}")


@contextmanager
def _served() -> Iterator[str]:
    """The address of /ui of a program with a few nodes, a pod that waits, and decisions; it ends with the context."""
    program = Program(8, 8, 8, 8)
    for number in range(3):
        program.cluster.set_claim(watched(a_holder(f"train-{number}", f"gpu-{number}"), users=[a_pod(name="train")]), 1)
    node = program.cluster.node("node-2")
    assert node
    program.cluster.set_node(replace(node, unschedulable=True))
    reason = "0/4 nodes are available: 4 cannot allocate all claims."
    program.waiting = [{"pod": "ml/wish", "uid": "1", "queue": "unschedulable", "attempts": 2, "message": reason}]
    waits = {"source": "label", "pods": 2, "waiting": 2, "minimum": 3}
    program.groups = [{"group": "ml/train", **waits, "reason": "waiting for 1 of 3 pods of group ml/train"}]
    program.decisions.answered(time.time(), "ml/wish", "Unschedulable", reason)
    program.decisions.answered(time.time() - 90_000, "ml/gone", "Unschedulable", reason)
    with served(program, samples=200) as url:
        yield url


def _keep(tab: Browser, page: Path) -> None:
    """The picture of the README."""
    for scheme in SCHEMES:
        tab.open(page, 740, scheme=scheme)
        _save(tab, KEPT / f"map-{scheme}.png", int(tab.evaluate(MAP_HEIGHT)), _top_of_the_map(tab))


def _generated(title: str, folder: Path) -> str:
    preset, nodes, pods = PRESETS[title]
    path = folder / f"{title}.jsonl"
    path.write_text(dra("generate", "--preset", preset, "--nodes", str(nodes), "--pods", str(pods)).out)
    return str(path)


def _placed(folder: Path) -> str:
    """The pods of the example of limits, each in its place where the limits leave it one."""
    path = folder / "placed.yaml"
    example = [str(Path("limits", name)) for name in ("cluster.yaml", "teams.yaml")]
    path.write_text(dra("allocate", *example, "--config", "limits/config.yaml", "-o", "yaml").out)
    return str(path)


def _argument(text: str, inputs: Mapping[str, str]) -> str:
    """A word of a command: capitals name a generated input, or a folder of the examples."""
    folder, slash, file = text.partition("/")
    if not folder.isupper():
        return text
    return inputs.get(folder) or f"{folder.lower()}{slash}{file}"


def _height(tab: Browser) -> int:
    return min(MOST_HEIGHT, int(tab.evaluate("document.documentElement.scrollHeight")))


def _top_of_the_map(tab: Browser) -> int:
    top = "Math.floor(document.querySelector('.map').closest('section').getBoundingClientRect().top + scrollY)"
    return int(tab.evaluate(top))


def _save(tab: Browser, path: Path, height: int, top: int = 0) -> None:
    width = int(tab.evaluate("innerWidth"))
    clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
    found = tab.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    path.write_bytes(b64decode(found["data"]))


if __name__ == "__main__":
    main()
