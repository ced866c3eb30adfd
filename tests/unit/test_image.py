"""The Dockerfile is what `make image-check` can carry out, and ends as the manifests expect it."""

from pathlib import Path

import pytest

from tests.image.dockerfile import UnknownInstruction, stages

ROOT = Path(__file__).parents[2]


def test_image_runs_dra_as_the_user_of_the_manifests() -> None:
    build, image = stages(ROOT / "Dockerfile")
    assert (build.name, image.name) == ("build", "")
    assert [word for word, _ in image.steps] == ["RUN", "COPY"]
    assert image.steps[1] == ("COPY", "--from=build /venv /venv")
    assert (image.user, image.entrypoint) == ("65532:65532", ["dra"])
    assert image.environment["PATH"] == "/venv/bin:$PATH"


def test_pip_and_build_tools_are_not_in_what_is_copied() -> None:
    build, image = stages(ROOT / "Dockerfile")
    environments = [rest for word, rest in build.steps if word == "RUN" and "-m venv" in rest]
    assert [rest.count("venv --without-pip /venv") for rest in environments] == [1]
    assert not [rest for word, rest in build.steps if "/venv/bin/pip" in rest]
    (removed,) = (rest for word, rest in image.steps if word == "RUN")
    assert all(name in removed for name in ("site-packages", "ensurepip", '"$bin"/pip*'))


def test_base_images_can_be_named_by_digest() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("FROM ")] == [
        "FROM ${BUILD_IMAGE} AS build",
        "FROM ${BASE_IMAGE}",
    ]
    assert [stage.base for stage in stages(ROOT / "Dockerfile")] == ["python:3.11", "python:3.11-slim"]


def test_lines_are_joined_and_comments_left_out(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text("# a\nFROM x AS y\nWORKDIR /src\nRUN a \\\n && b\n# RUN c\nENV A=1 B=2\n")
    (stage,) = stages(path)
    assert (stage.base, stage.name, stage.folder) == ("x", "y", "/src")
    assert stage.steps == [("RUN", "a && b")]
    assert stage.environment == {"A": "1", "B": "2"}


def test_instruction_that_is_not_carried_out_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text("FROM x\nVOLUME /data\n")
    with pytest.raises(UnknownInstruction, match="VOLUME /data"):
        stages(path)
    path.write_text("FROM x\nUSER 1:1\nRUN a\n")
    with pytest.raises(UnknownInstruction, match="RUN a after USER 1:1"):
        stages(path)
