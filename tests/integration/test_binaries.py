"""Where the programs of a control plane come from, with a compiler that is a script."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.binaries import HOW_TO_GET, BuildError, Unavailable, find, is_at_hand, own_program, program_of

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
BUILDS = """
echo built >> "$COUNTED"
while [ "$1" != -o ]; do shift; done
case "$3" in tool) names="server kube-apiserver kube-controller-manager kube-scheduler kubectl";; *) names="$3";; esac
for name in $names; do
  printf '#!/bin/sh\\necho Kubernetes v1.36.3\\n' > "$2/$name"; chmod +x "$2/$name"
done
"""


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def environment(tmp_path: Path, go: str | None = BUILDS, **more: str) -> dict[str, str]:
    """A cache of its own, and `go` as the only program besides the system's; None: no Go."""
    if go is not None:
        program(tmp_path / "bin" / "go", go)
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin" if go is not None else str(tmp_path / "nothing")
    return {"PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache"), "COUNTED": str(tmp_path / "counted"), **more}


def assets(tmp_path: Path, *names: str, release: str = "v1.36.3") -> str:
    for name in names:
        program(tmp_path / "assets" / name, f"echo Kubernetes {release}")
    return str(tmp_path / "assets")


def ignored(_: str) -> None:
    pass


def test_programs_are_built_once_and_found_later_even_without_go(tmp_path: Path) -> None:
    reported: list[str] = []
    assert is_at_hand(environment(tmp_path))
    built = find(environment(tmp_path), reported.append)
    assert "building" in reported[0]
    assert built.etcd.name == "etcd"
    assert all(path is not None and path.is_file() for path in (built.etcd, built.apiserver, built.kubectl))
    assert is_at_hand(environment(tmp_path, go=None))
    assert find(environment(tmp_path, go=None), reported.append) == built
    assert (tmp_path / "counted").read_text() == "built\n"


def test_program_of_our_own_is_built_once_beside_the_others(tmp_path: Path) -> None:
    built = own_program("kubelet", environment(tmp_path), ignored)
    assert built.name.startswith("kubelet-")
    assert own_program("kubelet", environment(tmp_path, go=None), ignored) == built
    assert own_program("plugins", environment(tmp_path), ignored) != built
    assert (tmp_path / "counted").read_text() == "built\nbuilt\n"
    with pytest.raises(Unavailable):
        own_program("kubelet", environment(tmp_path / "another", go=None), ignored)


def test_two_at_once_build_once(tmp_path: Path) -> None:
    given = environment(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: find(given, ignored), range(2))
    assert first == second
    assert (tmp_path / "counted").read_text() == "built\n"


def test_failed_build_reports_the_compilers_words_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no such module"):
        find(environment(tmp_path, go="echo no such module >&2; exit 1"), ignored)
    left = [path for path in (tmp_path / "cache").rglob("*") if path.suffix != ".lock" and not path.is_dir()]
    assert left == []
    assert find(environment(tmp_path), ignored).etcd.is_file()


def test_without_go_and_without_programs_it_says_how_to_get_them(tmp_path: Path) -> None:
    assert not is_at_hand(environment(tmp_path, go=None))
    with pytest.raises(Unavailable) as refused:
        find(environment(tmp_path, go=None), ignored)
    assert str(refused.value) == HOW_TO_GET
    assert "KUBEBUILDER_ASSETS" in HOW_TO_GET
    assert "https://go.dev" in HOW_TO_GET


def test_programs_of_the_user_are_used(tmp_path: Path) -> None:
    folder = assets(tmp_path, *NAMES)
    assert is_at_hand(environment(tmp_path, go=None, KUBEBUILDER_ASSETS=folder))
    found = find(environment(tmp_path, go=None, KUBEBUILDER_ASSETS=folder), ignored)
    assert {path.parent for path in (found.etcd, found.apiserver, found.scheduler)} == {Path(folder)}


def test_kubectl_may_be_missing(tmp_path: Path) -> None:
    folder = assets(tmp_path, *NAMES[:4])
    assert find(environment(tmp_path, go=None, KUBEBUILDER_ASSETS=folder), ignored).kubectl is None


def test_what_the_user_does_not_have_is_built_and_said(tmp_path: Path) -> None:
    folder = assets(tmp_path, "etcd", "kube-apiserver", "kubectl")
    reported: list[str] = []
    found = find(environment(tmp_path, KUBEBUILDER_ASSETS=folder), reported.append)
    assert found.apiserver.parent == Path(folder)
    assert found.scheduler.parent != Path(folder)
    assert reported[-1].startswith("kube-controller-manager, kube-scheduler: not in")


def test_programs_of_two_releases_are_refused(tmp_path: Path) -> None:
    folder = assets(tmp_path, "etcd", "kube-apiserver", release="v1.35.0")
    with pytest.raises(Unavailable, match=r"one minor release.*v1\.35"):
        find(environment(tmp_path, KUBEBUILDER_ASSETS=folder), ignored)


def a_module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    folder.mkdir()
    for name in ("go.mod", "go.sum", "main.go"):
        (folder / name).write_text(name)
    return folder


WRITES = """
echo built >> "$COUNTED"
[ "$1 $2" = "build -o" ] && [ "$4 $5" = "-trimpath ./tool" ] && printf '#!/bin/sh' > "$3"
"""


def test_program_of_another_module_is_built_once_and_again_where_anything_changes(tmp_path: Path) -> None:
    module, given = a_module(tmp_path), environment(tmp_path, go=WRITES)
    arguments = ["-trimpath", "./tool"]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: program_of(module, "tool", arguments, given, ignored), range(2))
    assert first == second
    assert first.is_file()
    assert program_of(module, "tool", arguments, environment(tmp_path, go=None), ignored) == first
    assert (tmp_path / "counted").read_text() == "built\n"
    for name in ("go.mod", "go.sum", "main.go", "another.go"):
        (module / name).write_text("changed")
        assert program_of(module, "tool", arguments, given, ignored) != first
    assert (tmp_path / "counted").read_text() == "built\n" * 5
    with pytest.raises(BuildError, match="build -o"):
        program_of(module, "tool", ["./another"], given, ignored)
    with pytest.raises(Unavailable, match="no Go to build tool"):
        program_of(module, "tool", ["./another"], environment(tmp_path / "other", go=None), ignored)
