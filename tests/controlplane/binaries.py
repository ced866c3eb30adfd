"""The programs of a control plane: those that a user has, or else built from the Go module in this folder.

Built once into a cache folder outside of the tree, under a name that changes with what is built; a lock keeps two
builds from running at once, and a build shows up under its name only when it is complete. The same holds for programs
of our own in this module, such as `kubelet`, and for those of other modules, such as helm.
Source: KUBEBUILDER_ASSETS is the folder that the test tools of controller authors (setup-envtest) fill.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.controlplane.stand_ins import make_stand_ins

MODULE = Path(__file__).parent
HOW_TO_GET = (
    "no control plane at hand: install Go 1.26 or later (https://go.dev/dl) to have it built once, in about 4 minutes, "
    "or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager and kube-scheduler"
)
RELEASE = "CONTROL_PLANE_RELEASE"
"""Names another release than the usual one, such as 1.37, for which the module has a file go-1.37.mod."""

TOLD_EVERY_S = 30.0
ETCD_PACKAGE = "server"  # the last part of its import path, and so what the compiler names the program
_NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_OPTIONAL = frozenset({"kubectl"})

Tell = Callable[[str], None]


class Unavailable(Exception):
    """The programs are not here and cannot be built; the message says how to get them."""


class BuildError(Exception):
    """The compiler failed; its own words are in the message."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of the programs. kubectl: None where a folder of the user's does not have it."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    scheduler: Path
    kubectl: Path | None


def is_at_hand(environment: Mapping[str, str]) -> bool:
    """Whether `find` would find or build the programs."""
    return not _missing(_own(environment)) or _folder(environment).is_dir() or _has_go(environment)


def find(environment: Mapping[str, str], tell: Tell) -> Binaries:
    """The programs: the user's own, those built before, or built now. Raises Unavailable or BuildError.

    environment: RELEASE may be set in it. tell: is given a line on what takes long.
    """
    own = _own(environment)
    missing = _missing(own)
    built = _built(environment, tell) if missing else {}
    found = {**built, **own}
    if own and built:
        tell(f"{', '.join(missing)}: not in {own[next(iter(own))].parent}, so taken from {built['etcd'].parent}")
        _check_same_release(found)
    etcd, apiserver, controller_manager, scheduler = (found[name] for name in _NAMES[:4])
    return Binaries(etcd, apiserver, controller_manager, scheduler, found.get("kubectl"))


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where everything is kept that outlasts a checkout."""
    cache = environment.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "dra-scheduler"


def program_of(module: Path, name: str, arguments: Sequence[str], environment: Mapping[str, str], tell: Tell) -> Path:
    """A program of another Go module: built before, or now. Raises as `find`.

    arguments: of `go build`, the package as the last one.
    """
    sources = sorted(path for path in module.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    said = [f"{path.name}\n{path.read_text()}" for path in sources]
    program = cache_folder(environment) / "programs" / f"{name}-{_digest([*said, *arguments])}"
    if not program.is_file():
        if not _has_go(environment):
            raise Unavailable(f"no Go to build {name} with: install Go 1.26 or later (https://go.dev/dl)")
        with _locked(program.with_name(f"{program.name}.lock"), tell):
            if not program.is_file():
                _build_in(module, program, arguments, environment)
    return program


def _build_in(module: Path, program: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(dir=program.parent, prefix="building-") as unfinished:
        target = Path(unfinished) / program.name
        command = ["go", "build", "-o", str(target), *arguments]
        named = [one.removeprefix("-modfile=") for one in arguments if one.startswith("-modfile=")]
        alone = {**environment, **_toolchain(module / (named or ["go.mod"])[0]), "GOWORK": "off"}
        done = subprocess.run(command, cwd=module, env=alone, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"{' '.join(command)} in {module} failed:\n{done.stderr[-4000:]}")
        target.rename(program)


def own_program(name: str, environment: Mapping[str, str], tell: Tell, kubernetes: str = "") -> Path:
    """A program of our own, such as kubelet: built before, or now. Raises as `find`.

    kubernetes: the release, such as 1.37, where it is not the usual one, whatever the environment names.
    """
    environment = {**{key: value for key, value in environment.items() if key != RELEASE}, RELEASE: kubernetes}
    sources = sorted((MODULE / name).glob("*.go"))
    program = _cache(environment) / f"{name}-{_key(environment, sources)}"
    if not program.is_file():
        _once(program, program.is_file, environment, tell, f"./{name}")
    return program


def release(environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """The release of Kubernetes that is built, such as v1.36.3."""
    named = re.search(r"k8s\.io/kubernetes (v\S+)", _module_file(environment).read_text())
    assert named, "it requires k8s.io/kubernetes"
    return named[1]


def _module_file(environment: Mapping[str, str]) -> Path:
    other = environment.get(RELEASE)
    return MODULE / (f"go-{other}.mod" if other else "go.mod")


def _own(environment: Mapping[str, str]) -> dict[str, Path]:
    """The programs that the user has."""
    assets = environment.get("KUBEBUILDER_ASSETS")
    paths = {name: Path(assets) / name for name in _NAMES} if assets else {}
    return {name: path for name, path in paths.items() if path.is_file()}


def _missing(own: Mapping[str, Path]) -> list[str]:
    return [name for name in _NAMES if name not in own and name not in _OPTIONAL]


def _has_go(environment: Mapping[str, str]) -> bool:
    return shutil.which("go", path=environment.get("PATH")) is not None


def _check_same_release(found: Mapping[str, Path]) -> None:
    programs = [path for name, path in found.items() if name.startswith("kube-")]
    releases = {path: _release_of(path) for path in programs}
    if len(set(releases.values())) > 1:
        named = ", ".join(f"{path} is {said}" for path, said in releases.items())
        raise Unavailable(f"the programs of one control plane have to be of one minor release: {named}")


def _release_of(program: Path) -> str:
    """The minor release of a component, such as v1.36."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v\d+\.\d+", said)
    return found[0] if found else said.strip()


def _built(environment: Mapping[str, str], tell: Tell) -> dict[str, Path]:
    folder = _folder(environment)
    if not folder.is_dir():
        _once(folder, folder.is_dir, environment, tell, "tool")
    return {name: folder / name for name in _NAMES}


def _once(target: Path, is_built: Callable[[], bool], environment: Mapping[str, str], tell: Tell, package: str) -> None:
    """Build the package as the target, unless another process does it meanwhile."""
    if not _has_go(environment):
        raise Unavailable(HOW_TO_GET)
    with _locked(target.with_suffix(".lock"), tell):
        if not is_built():
            _build(target, environment, tell, package)


def _folder(environment: Mapping[str, str]) -> Path:
    """Where the built programs are, or will be."""
    return _cache(environment) / _key(environment)


def _cache(environment: Mapping[str, str]) -> Path:
    return cache_folder(environment) / "controlplane"


def _key(environment: Mapping[str, str], sources: Sequence[Path] = ()) -> str:
    """A name for what is built: the pinned sources, how, and for which machine."""
    module_file = _module_file(environment)
    said = [path.read_text() for path in (module_file, module_file.with_suffix(".sum"), *sources)]
    return _digest([*said, *_build_flags(environment)])


def _digest(said: Sequence[str]) -> str:
    """Of what is built, how, and for which machine."""
    said = [*said, platform.system(), platform.machine()]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def _build_flags(environment: Mapping[str, str]) -> list[str]:
    """Small programs that know their release: without it they take themselves for an unfinished one."""
    built = release(environment)
    major, minor, _ = built.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": built, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamped = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())
    return ["-trimpath", "-mod=readonly", "-ldflags", f"-s -w {stamped}"]


def _build(target: Path, environment: Mapping[str, str], tell: Tell, package: str) -> None:
    """The folder of the control plane's programs, or the one program of a package."""
    is_tool = package == "tool"
    what = f"etcd and Kubernetes {release(environment)}" if is_tool else package.removeprefix("./")
    tell(f"building {what} into {target}: once, about {'4 minutes' if is_tool else 'a minute'} on 2 cores")
    started = time.monotonic()
    unfinished = Path(tempfile.mkdtemp(dir=target.parent, prefix="building-"))
    try:
        _compile(unfinished, environment, lambda: tell(f"still building, {time.monotonic() - started:.0f} s"), package)
        if is_tool:
            (unfinished / ETCD_PACKAGE).rename(unfinished / "etcd")
            unfinished.rename(target)
        else:
            (unfinished / package.removeprefix("./")).rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    tell(f"built in {time.monotonic() - started:.0f} s")


def _compile(folder: Path, environment: Mapping[str, str], still: Callable[[], None], package: str) -> None:
    module_file = f"-modfile={_module_file(environment)}"
    major, minor, _ = release(environment).removeprefix("v").split(".", 2)
    tags = [] if package == "tool" else [f"-tags=kubernetes_{major}_{minor}"]  # for what differs between releases
    command = ["go", "build", module_file, *_build_flags(environment), *tags, "-o", f"{folder}{os.sep}", package]
    source = _module_file(environment)
    alone = {**environment, **_toolchain(source), "GOWORK": "off"}  # a user's workspace would replace modules
    make_stand_ins(source, alone)
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(command, cwd=MODULE, env=alone, stdout=said, stderr=said) as compiler:
            while not _has_ended(compiler):
                still()
        said.seek(0)
        if compiler.returncode != 0:
            raise BuildError(f"go build in {MODULE} failed:\n{said.read()[-4000:].decode(errors='replace')}")


def _toolchain(module_file: Path) -> Mapping[str, str]:
    """The Go that the module needs, where it names one: fetched once, as a module is."""
    named = re.search(r"^toolchain (\S+)", module_file.read_text(), re.MULTILINE)
    return {"GOTOOLCHAIN": named[1]} if named else {}


def _has_ended(compiler: "subprocess.Popen[bytes]") -> bool:
    try:
        compiler.wait(TOLD_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _locked(path: Path, tell: Tell) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"another process is building {path.stem}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
