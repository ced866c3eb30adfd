"""Go modules that a pre-release of Kubernetes needs and no module proxy has, made of what the release before it has.

`k8s.io/apiextensions-api` is new in 1.38: the types and clients of custom resources, which `apiextensions-apiserver`
held itself up to 1.37. Its stand-in is those of 1.37 under the new import path; custom resources are therefore not
exactly 1.38's. It lies beside the module file that names it, is no part of the tree, and goes once 1.38 is released.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent / ".stand-ins"

_SOURCE = "k8s.io/apiextensions-apiserver"
_SOURCE_VERSION = "v0.37.2"
_PATH = "k8s.io/apiextensions-api"
_ROOMS = ("pkg/apis/apiextensions/v1", "pkg/apis/apiextensions/v1beta1", "pkg/client")
_MOVED = (
    # Where a file of the stand-in imports another one of it, and the library whose major version changed meanwhile.
    (re.compile(rf'"{re.escape(_SOURCE)}/(pkg/(?:apis/apiextensions/v1|client)[^"]*)"'), rf'"{_PATH}/\1"'),
    (re.compile(r"sigs\.k8s\.io/structured-merge-diff/v6/"), "sigs.k8s.io/structured-merge-diff/v7/"),
)


def make_stand_ins(module_file: Path, environment: Mapping[str, str]) -> None:
    """Make those that the module file names, unless they are there."""
    target = FOLDER / "apiextensions-api"
    if f"./{FOLDER.name}/" not in module_file.read_text() or target.is_dir():
        return
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as unfinished:
        made = Path(unfinished) / target.name
        _make(_downloaded(environment), made)
        made.rename(target)


def _downloaded(environment: Mapping[str, str]) -> Path:
    """The folder of the sources, fetched as any module is."""
    command = ["go", "mod", "download", "-json", f"{_SOURCE}@{_SOURCE_VERSION}"]
    with tempfile.TemporaryDirectory() as nowhere:
        found = subprocess.run(command, cwd=nowhere, env=environment, capture_output=True, text=True, check=True)
    return Path(json.loads(found.stdout)["Dir"])


def _with_null(package: Path) -> None:
    """What the types need of a file with conversions, which stayed where it was."""
    if package.is_dir():
        (package / "null.go").write_text(f'package {package.name}\n\nvar nullLiteral = []byte("null")\n')


def _make(source: Path, target: Path) -> None:
    target.mkdir()
    (target / "go.mod").write_text(f"module {_PATH}\n\ngo 1.26.0\n")
    for room in _ROOMS:
        for path in sorted((source / room).rglob("*.go")):
            if _is_part(path):
                copied = target / path.relative_to(source)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copied)
                copied.write_text(_moved(copied.read_text()))
    for version in ("v1", "v1beta1"):
        _with_null(target / "pkg/apis/apiextensions" / version)


def _is_part(path: Path) -> bool:
    """Conversions to internal types stayed where they were."""
    is_conversion = path.name in {"conversion.go", "zz_generated.conversion.go"}
    return not is_conversion and not path.name.endswith("_test.go") and path.parent.name != "clientset_test"


def _moved(text: str) -> str:
    for pattern, new in _MOVED:
        text = pattern.sub(new, text)
    return text
