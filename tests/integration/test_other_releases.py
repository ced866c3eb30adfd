"""Control planes of other releases than the usual one: what they are built of, and what profiles turn on there."""

from pathlib import Path

import pytest

from allocator.gates import RELEASES
from tests.controlplane import stand_ins
from tests.controlplane.binaries import RELEASE, own_program, release
from tests.controlplane.profiles import gates_of_all
from tests.integration.test_binaries import environment, ignored

FETCHES = """
if [ "$1 $2" = "mod download" ]; then echo "{\\"Dir\\": \\"$SOURCES\\"}"; exit; fi
echo "$GOTOOLCHAIN $@" >> "$COUNTED"
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2/plugins"
"""


def sources(folder: Path) -> Path:
    """A module as 1.37 has it, as far as it matters."""
    files = {
        "pkg/apis/apiextensions/v1/types.go": "package v1\n",
        "pkg/apis/apiextensions/v1/conversion.go": "package v1 // to internal types\n",
        "pkg/apis/apiextensions/v1/types_test.go": "package v1 // tests\n",
        "pkg/apis/apiextensions/types.go": "package apiextensions // internal types\n",
        "pkg/client/listers/l.go": 'import "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"\n'
        'import "sigs.k8s.io/structured-merge-diff/v6/typed"\n',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_module_that_no_proxy_has_is_made_of_the_release_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_ins, "FOLDER", tmp_path / ".stand-ins")
    of = {RELEASE: "1.38", "SOURCES": str(sources(tmp_path / "sources"))}
    own_program("plugins", environment(tmp_path, FETCHES, **of), ignored, "1.38")
    made = tmp_path / ".stand-ins" / "apiextensions-api"
    assert sorted(str(path.relative_to(made)) for path in made.rglob("*.*")) == [
        "go.mod",
        "pkg/apis/apiextensions/v1/null.go",
        "pkg/apis/apiextensions/v1/types.go",
        "pkg/client/listers/l.go",
    ]
    assert (made / "pkg/client/listers/l.go").read_text().splitlines() == [
        'import "k8s.io/apiextensions-api/pkg/apis/apiextensions/v1"',
        'import "sigs.k8s.io/structured-merge-diff/v7/typed"',
    ]
    (line,) = (tmp_path / "counted").read_text().splitlines()
    assert line.startswith("go1.27.3 build -modfile=")
    assert "go-1.38.mod" in line
    assert "-tags=kubernetes_1_38" in line


def test_the_usual_release_needs_neither_stand_ins_nor_another_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_ins, "FOLDER", tmp_path / ".stand-ins")
    own_program("plugins", environment(tmp_path, FETCHES), ignored)
    assert not (tmp_path / ".stand-ins").exists()
    (line,) = (tmp_path / "counted").read_text().splitlines()
    assert line.startswith(" build ")


@pytest.mark.parametrize(("other", "built"), [("", "v1.36.3"), ("1.37", "v1.37.2"), ("1.38", "v1.38.0-beta.0")])
def test_each_release_is_pinned(other: str, built: str) -> None:
    assert release({RELEASE: other}) == built


_NOT_OF_ANSWERS = {
    "CompositePodGroup",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
}
"""Gates of all three releases that change no answer of ours."""


@pytest.mark.parametrize("name", ["1.36", "1.37", "1.38"])
def test_a_profile_names_no_gate_that_its_release_lacks(name: str) -> None:
    named = set(gates_of_all(name)) - _NOT_OF_ANSWERS
    known = set(RELEASES[name].gates) | ({"GangScheduling"} if name == "1.36" else set())
    assert named <= known
    assert not any(stage.is_locked for gate, stage in RELEASES[name].gates.items() if gate in named)
