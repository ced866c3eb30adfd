from importlib.metadata import packages_distributions

import pytest

from scheduler.installation import DISTRIBUTION, PACKAGES, InstallationError, verify

OURS = {package: [DISTRIBUTION] for package in PACKAGES}


def problem_of(owners: dict[str, list[str]]) -> str:
    with pytest.raises(InstallationError) as caught:
        verify(owners)
    return str(caught.value)


def test_each_package_here_has_exactly_one_owner() -> None:
    verify()
    owners = packages_distributions()
    assert {package: set(owners[package]) for package in PACKAGES} == {package: {DISTRIBUTION} for package in PACKAGES}


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
