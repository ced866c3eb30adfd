"""The Dockerfile is what `make image-check` can carry out, and ends as the manifests expect it."""

from pathlib import Path

import pytest

from tests.image.dockerfile import UnknownInstruction, stages

ROOT = Path(__file__).parents[2]


def test_image_runs_dra_as_the_user_of_the_manifests() -> None:
    build, image = stages(ROOT / "Dockerfile")
    assert (build.name, image.name) == ("build", "")
    assert image.steps == [("COPY", "--from=build /venv /venv")]
    assert (image.user, image.entrypoint) == ("65532:65532", ["dra"])
    assert image.environment["PATH"] == "/venv/bin:$PATH"


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
