# ruff: noqa: INP001 - a program of its own
"""`make krew`: the archive of the plugin, and the manifest that names its version and sum.

The archive holds the launcher, the wheel and the locked requirements. It is the same for the same wheel.
"""

import argparse
import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE.parents[1] / "requirements" / "run.txt"
LICENSE = HERE.parents[1] / "LICENSE"

EXECUTABLE, PLAIN = 0o755, 0o644


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path, help="for dra.tar.gz and dra.yaml")
    parser.add_argument("--uri", default="", help="where the archive is published; default: the file itself")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / "dra.tar.gz"
    path.write_bytes(archive(arguments.wheel))
    uri = arguments.uri or path.resolve().as_uri()
    text = yaml.safe_dump(manifest(path.read_bytes(), arguments.wheel, uri), sort_keys=False)
    (arguments.folder / "dra.yaml").write_text(text)


def archive(wheel: Path) -> bytes:
    """The archive, without times and owners."""
    files = {
        "kubectl-dra": (HERE / "kubectl-dra").read_bytes(),
        "requirements.txt": REQUIREMENTS.read_bytes(),
        "LICENSE": LICENSE.read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        for name, found in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(found), EXECUTABLE if name == "kubectl-dra" else PLAIN
            tar.addfile(entry, io.BytesIO(found))
    return packed.getvalue()


def manifest(packed: bytes, wheel: Path, uri: str) -> Mapping[str, Any]:
    """The manifest of the archive. wheel: says the version in its name."""
    found: dict[str, Any] = yaml.safe_load((HERE / "dra.yaml").read_text())
    found["spec"]["version"] = f"v{wheel.name.split('-')[1]}"
    [platform] = found["spec"]["platforms"]
    platform["uri"], platform["sha256"] = uri, hashlib.sha256(packed).hexdigest()
    return found


if __name__ == "__main__":
    main()
