from pathlib import Path

import pytest

from scheduler.installation import DISTRIBUTION, PACKAGES, InstallationError, verify

OURS = {package: [DISTRIBUTION] for package in PACKAGES}


def problem_of(owners: dict[str, list[str]]) -> str:
    with pytest.raises(InstallationError) as caught:
        verify(owners)
    return str(caught.value)


def test_each_package_here_has_exactly_one_owner() -> None:
    verify()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("top_level.txt", "celpy\ncel\n"),
        ("RECORD", "cel/__init__.py,sha256=x,10\ncel/run.py,,\nother/__init__.py,,\n"),
        ("RECORD", '"cel/a,b.py",,\n'),
        ("RECORD", "cel.py,,\n"),
    ],
)
def test_another_owner_in_the_environment_is_found(
    file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata(tmp_path, "cel-bind", file, text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InstallationError, match="the package 'cel' is also installed by cel-bind"):
        verify()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("top_level.txt", "celpy\n"),
        ("RECORD", "celpy/__init__.py,,\nother/cel/__init__.py,,\ncel/data.txt,,\n../../bin/cel,,\n"),
    ],
)
def test_similar_names_are_no_owners(file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata(tmp_path, "cel-python", file, text)
    monkeypatch.syspath_prepend(tmp_path)
    verify()


def metadata(folder: Path, name: str, file: str, text: str) -> None:
    """The metadata of a distribution in the folder, with one more file."""
    own = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    own.mkdir()
    (own / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (own / file).write_text(text)


def test_packages_of_one_owner_are_a_whole_installation() -> None:
    verify({**OURS, "yaml": ["PyYAML"], "celpy": ["cel-python"]})


@pytest.mark.parametrize("spelling", ["dra_scheduler", "DRA-Scheduler", "dra.scheduler"])
def test_the_spelling_of_our_name_does_not_matter(spelling: str) -> None:
    verify({**OURS, "cel": [spelling]})


def test_an_owner_that_is_listed_twice_is_one_owner() -> None:
    verify({**OURS, "cel": [DISTRIBUTION, DISTRIBUTION]})


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("others", [["cel-bind"], ["cel-bind", DISTRIBUTION]])
def test_an_intruder_is_named_with_the_package_and_the_remedy(package: str, others: list[str]) -> None:
    assert problem_of({**OURS, package: others}) == (
        f"the package '{package}' is also installed by cel-bind: "
        f"install {DISTRIBUTION} into an environment of its own, or uninstall cel-bind"
    )


def test_all_intruders_are_named() -> None:
    owners = ["common-expression-language", DISTRIBUTION, "cel-bind"]
    assert "also installed by cel-bind, common-expression-language:" in problem_of({**OURS, "cel": owners})


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_that_nobody_owns_is_named(package: str) -> None:
    owners = {name: found for name, found in OURS.items() if name != package}
    assert problem_of(owners) == f"the package '{package}' belongs to no distribution: {DISTRIBUTION} is not installed"
