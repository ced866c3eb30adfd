"""`make image-check`: build the image by its Dockerfile, and run `dra` in it as the manifests do.

With docker where `docker info` succeeds. Elsewhere the same steps in plain root directories, in a mount namespace: each
stage has one, with this machine's system, read-only, and its Python, copied on write, in place of the base image. That
needs root.
"""

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

import click

from tests.controlplane import binaries
from tests.controlplane.guarded import LEASE
from tests.controlplane.identities import OURS
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rights import grant
from tests.image import dockerfile

ROOT = Path(__file__).resolve().parents[2]
FLEET = ROOT / "manifests" / "examples" / "fleet"
CONFIG = ROOT / "manifests" / "base" / "config.yaml"
TAG = "dra-scheduler:image-check"
PLACED = "inference/chat-0"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc")
"""Of this machine, where it has them."""

INSTALLERS = ("pip", "pip[0-9.-]*", "setuptools", "setuptools-*", "wheel", "wheel-*")
COMPILERS = (
    *("cc", "c++", "gcc", "gcc-[0-9]*", "*-gcc", "*-gcc-[0-9]*", "g++*", "clang*", "cc1"),
    *("ld", "ld.bfd", "ld.gold"),
)
NOT_PROGRAMS = ("/proc", "/sys", "/dev", "/usr/share/doc", "/var/lib/dpkg")
"""Where files may have the names of programs and be about them."""

FINDS = """\
from importlib.util import find_spec
print([name for name in ("pip", "setuptools", "ensurepip", "pkg_resources", "wheel") if find_spec(name)])
"""

SHOWN = ("mnt", "var/run/secrets")
"""Where files are shown, as a kubelet does."""

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

_FOLDER = "DRA_IMAGE_CHECK_FOLDER"


class Failed(Exception):
    """The image is not what it should be; the message says why."""


class Image(Protocol):
    """An image that is built. borrowed: folders that it has from elsewhere here, in place of those of its base."""

    borrowed: Sequence[str]

    def command(self, arguments: Sequence[str], files: Mapping[str, Path], entrypoint: str) -> Sequence[str]:
        """What runs it. files: by the places where it finds them. entrypoint: empty for its own."""
        ...


class DockerImage:
    """The image, built and run by docker."""

    borrowed: Sequence[str] = ()

    def __init__(self) -> None:
        subprocess.run(["docker", "build", f"--tag={TAG}", ROOT], check=True)  # noqa: S607

    def command(self, arguments: Sequence[str], files: Mapping[str, Path], entrypoint: str) -> Sequence[str]:
        """What runs it in the network of this machine."""
        mounts = [f"--volume={path}:{place}:ro" for place, path in files.items()]
        entry = [f"--entrypoint={entrypoint}"] if entrypoint else []
        return ["docker", "run", "--rm", "--network=host", "--read-only", *mounts, *entry, TAG, *arguments]


class PlainImage:
    """The root directory of the last stage."""

    borrowed: Sequence[str] = SYSTEM

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._roots: dict[str, Path] = {}
        for number, stage in enumerate(dockerfile.stages(ROOT / "Dockerfile")):
            self._roots[stage.name] = self._root = self._new_root(str(number))
            self._stage = stage
            for word, rest in stage.steps:
                click.echo(f"{word} {rest}")
                if word == "COPY":
                    self._copy(rest)
                else:
                    output(self._command(["/bin/sh", "-c", rest], dockerfile.ROOT))
        for place in SHOWN:
            mount("--bind", str(self._root / place), str(self._root / place))
        mount("-o", "remount,ro,bind", str(self._root))

    def command(self, arguments: Sequence[str], files: Mapping[str, Path], entrypoint: str) -> Sequence[str]:
        """What runs it in the network of this machine."""
        for place, path in files.items():
            bind(path, self._root / place.lstrip("/"))
        called = [entrypoint] if entrypoint else self._stage.entrypoint
        return self._command([*called, *arguments], self._stage.user)

    def _new_root(self, name: str) -> Path:
        root = self._folder / name
        root.mkdir()
        mount("--bind", str(root), str(root))
        for place in SYSTEM:
            if Path(place).exists():
                bind(Path(place), root / place.lstrip("/"))
        overlay(Path(sys.base_prefix), root / sys.base_prefix.lstrip("/"), self._folder / f"changes-{name}")
        for place in ("tmp", *SHOWN):
            (root / place).mkdir(parents=True)
        return root

    def _copy(self, text: str) -> None:
        source, *names = text.split() if text.startswith("--from=") else ("", *text.split())
        start = self._roots[source.removeprefix("--from=")] if source else ROOT
        *copied, place = names
        for name in copied:
            self._copy_one(start / name.lstrip("/"), place)

    def _copy_one(self, source: Path, place: str) -> None:
        target = self._root / str(Path(self._stage.folder, place)).lstrip("/")
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)

    def _command(self, command: Sequence[str], user: str) -> Sequence[str]:
        """It, as the user, with folder and variables of the stage."""
        path = f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin"
        own = {name: value.replace("$PATH", path) for name, value in self._stage.environment.items()}
        (self._root / self._stage.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        variables = [f"{name}={value}" for name, value in {"HOME": "/nonexistent", "PATH": path, **own}.items()]
        chroot = ["chroot", f"--userspec={user}", str(self._root)]
        return [
            *chroot,
            "env",
            "-u",
            "PYTHONPATH",
            "-u",
            "PYTHONSAFEPATH",
            "-C",
            self._stage.folder,
            *variables,
            *command,
        ]


def output(command: Sequence[str]) -> str:
    """What the command prints. Raises Failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)  # noqa: S607


def bind(source: Path, target: Path) -> None:
    """Show the file or folder there too, read-only; what a link leads to where it is one."""
    if target.exists():
        return
    if source.is_dir():
        target.mkdir(parents=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("--rbind", str(source), str(target))
    if source.name not in ("dev", "proc"):
        mount("-o", "remount,ro,bind", str(target))


def overlay(source: Path, target: Path, changes: Path) -> None:
    """Show the folder there too; what is changed there stays in memory."""
    for folder in (changes, target):
        folder.mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "tmpfs", str(changes))
    for name in ("upper", "work"):
        (changes / name).mkdir()
    where = f"lowerdir={source},upperdir={changes}/upper,workdir={changes}/work"
    mount("-t", "overlay", "overlay", "-o", where, str(target))


def check(image: Image, folder: Path) -> None:
    """Raises Failed. folder: for files."""

    def shell(text: str, files: Mapping[str, Path] | None = None) -> str:
        return output(image.command(["-c", text], files or {}, "/bin/sh"))

    version = output(image.command(["--version"], {}, ""))
    expect("(compiled)" in version, f"the allocator is not compiled: {version}")
    placed = shell("dra allocate /mnt/fleet; test $? -eq 1", {"/mnt/fleet": FLEET})
    expect(PLACED in placed, f"the example fleet is not placed: {placed}")
    who = shell("id -u; id -g; touch /venv/x 2>&1 || true")
    expect(who.startswith("65532\n65532\n"), f"it runs as another user: {who}")
    expect("Read-only file system" in who, f"it can be written to: {who}")
    check_contents(image)
    check_scheduler(image, folder)


def check_contents(image: Image) -> None:
    """Nothing that installs or compiles is in a folder of the image, and no Python of it finds any. Raises Failed."""
    skipped = " -o ".join(f"-path {place}" for place in (*NOT_PROGRAMS, *image.borrowed))
    wanted = f"\\( {_named(INSTALLERS)} -o ! -type d {_named(COMPILERS)} \\)"
    # What only root may read, the program cannot use.
    text = f"find / \\( {skipped} \\) -prune -o {wanted} -print 2>/dev/null || true"
    found = output(image.command(["-c", text], {}, "/bin/sh"))
    expect(not found, f"it contains pip, setuptools or a compiler: {found}")
    base = output(image.command(["-c", "import sys; print(sys._base_executable)"], {}, "python")).strip()
    for python in ("python", base):
        found = output(image.command(["-c", FINDS], {}, python)).strip()
        expect(found == "[]", f"{python} finds {found}")


def _named(names: Sequence[str]) -> str:
    """The test of `find` for these."""
    return "\\( " + " -o ".join(f"-name '{name}'" for name in names) + " \\)"


def check_scheduler(image: Image, folder: Path) -> None:
    """As in a pod: with the arguments and the configuration of the manifests, and the files of its account, on a real
    control plane. Raises Failed."""
    with ControlPlane(binaries.find(os.environ, click.echo), folder / "controlplane") as plane:
        grant(plane.client())
        (folder / "namespace").write_text("kube-system")
        token = plane.token_file(OURS)
        token.chmod(0o644)
        account = {"token": token, "ca.crt": plane.ca_file, "namespace": folder / "namespace"}
        files = {f"{ACCOUNT}/{name}": path for name, path in account.items()}
        host, _, port = plane.server.removeprefix("https://").partition(":")
        found = f"KUBERNETES_SERVICE_HOST={host} KUBERNETES_SERVICE_PORT={port}"
        command = f"{found} exec dra scheduler run --config=/mnt/config.yaml"
        run = image.command(["-c", command], {**files, "/mnt/config.yaml": CONFIG}, "/bin/sh")
        with subprocess.Popen(run, stderr=subprocess.PIPE, text=True) as program:
            try:
                poll_until(bool, lambda: program.poll() is not None or is_ready(), "it is ready")
                poll_until(bool, lambda: program.poll() is not None or is_leading(plane), "it leads")
            finally:
                program.terminate()
            _, log = program.communicate()
    expect(program.returncode == 0, f"it ended with {program.returncode}: {log}")


def is_leading(plane: ControlPlane) -> bool:
    """Whether somebody holds the lease of the manifests."""
    leases = plane.client().list(LEASE, "kube-system")
    return any(one["metadata"]["name"] == "dra-scheduler" and one["spec"].get("holderIdentity") for one in leases)


def is_ready() -> bool:
    """Whether the scheduler says so, over HTTPS with a certificate of its own."""
    context = ssl._create_unverified_context()  # noqa: S323 - nobody vouches for it
    try:
        with urllib.request.urlopen("https://127.0.0.1:10260/readyz", context=context) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def expect(holds: bool, problem: str) -> None:  # noqa: FBT001 - the condition reads first
    if not holds:
        raise Failed(problem)


def has_docker() -> bool:
    """Whether there is a docker that can build."""
    program = shutil.which("docker")
    return bool(program) and subprocess.run([str(program), "info"], capture_output=True, check=False).returncode == 0


def main() -> int:
    """The exit status."""
    if folder := os.environ.get(_FOLDER):
        check(PlainImage(Path(folder)), Path(folder))
    elif has_docker():
        with tempfile.TemporaryDirectory(prefix="dra-image-") as name:
            check(DockerImage(), Path(name))
    else:
        return check_in_namespace()
    contents = "compiled, without pip, setuptools and compiler"
    click.echo(f"image-check: {contents}, runs as 65532 on a read-only file system, places pods, leads and stops")
    return 0


def check_in_namespace() -> int:
    """Go on in a process whose mounts are gone when it ends: what is removed afterwards is only what was made."""
    if os.geteuid() != 0:
        click.echo("image-check: docker info fails, and without docker it needs root", err=True)
        return 2
    click.echo("docker info fails: building in plain root directories")
    with tempfile.TemporaryDirectory(prefix="dra-image-") as name:
        command = ["unshare", "--mount", "--", sys.executable, "-m", "tests.image.run"]
        return subprocess.run(command, env={**os.environ, _FOLDER: name}, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        click.echo(f"image-check: {failed}", err=True)
        sys.exit(1)
