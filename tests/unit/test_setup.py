"""What an installation builds: compiled, or pure Python."""

import runpy
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "setup.py"
COMPILED, PURE = "1compiled", "0pure"


@pytest.mark.parametrize(
    ("command", "wanted", "compiler", "built"),
    [
        pytest.param("bdist_wheel", None, "true", COMPILED, id="a wheel, with a C compiler"),
        pytest.param("build", None, "true", COMPILED, id="a folder, with a C compiler"),
        pytest.param("bdist_wheel", None, "false", PURE, id="headers are missing"),
        pytest.param("bdist_wheel", None, "/no/such/compiler", PURE, id="no compiler"),
        pytest.param("bdist_wheel", "0", "true", PURE, id="not wanted"),
        pytest.param("bdist_wheel", "1", "false", COMPILED, id="insisted on: compiling it fails"),
        pytest.param("editable_wheel", "1", "true", PURE, id="editable"),
        pytest.param("egg_info", None, "true", PURE, id="metadata"),
    ],
)
def test_installation_compiles_where_it_can(
    monkeypatch: pytest.MonkeyPatch, command: str, wanted: str | None, compiler: str, built: str
) -> None:
    calls: list[dict[str, object]] = []
    monkeypatch.setattr("setuptools.setup", lambda **options: calls.append(options))
    monkeypatch.setattr("mypyc.build.mypycify", lambda *_, **__: ["the extension"])
    monkeypatch.setattr("sys.argv", ["setup.py", command])
    monkeypatch.setenv("CC", compiler)
    monkeypatch.delenv("DRA_COMPILE", raising=False)
    if wanted is not None:
        monkeypatch.setenv("DRA_COMPILE", wanted)
    monkeypatch.chdir(SETUP.parent)
    runpy.run_path(str(SETUP))
    extensions = {"ext_modules": ["the extension"]} if built == COMPILED else {}
    assert calls == [{**extensions, "options": {"bdist_wheel": {"build_number": built}}}]


def test_every_module_that_is_compiled_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []

    def mypycify(arguments: list[str], **_: object) -> list[str]:
        named.extend(one for one in arguments if not one.startswith("--"))
        return []

    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    monkeypatch.setattr("mypyc.build.mypycify", mypycify)
    monkeypatch.setattr("sys.argv", ["setup.py", "build"])
    monkeypatch.setenv("DRA_COMPILE", "1")
    monkeypatch.chdir(SETUP.parent)
    runpy.run_path(str(SETUP))
    assert "allocator/allocate.py" in named
    assert [one for one in named if not Path(one).is_file()] == []


def test_installation_has_what_is_no_module_as_well() -> None:
    """The style sheet and the script of pages are read from the package."""
    patterns = tomllib.loads((SETUP.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    files = [path for room in ("cel", "allocator", "scheduler") for path in (SETUP.parent / room).rglob("*.*")]
    others = {path.name for path in files if path.suffix not in (".py", ".pyc", ".so") and path.is_file()}
    assert others >= {"py.typed", "page.css", "page.js", "live_page.js"}
    assert [name for name in others if not any(fnmatch(name, pattern) for pattern in patterns)] == []
