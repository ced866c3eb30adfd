"""How a test starts one of our programs inside `tests.controlplane.inside`, and moves its clock."""

from collections.abc import Sequence
from pathlib import Path

from tests.controlplane import inside
from tests.controlplane.ours import PROGRAM


def launcher(folder: Path) -> Sequence[str | Path]:
    """What runs in the place of `dra`. folder: of this program alone."""
    return (PROGRAM.with_name("python"), "-P", Path(inside.__file__), folder)


def move_clock(folder: Path, seconds: float) -> None:
    """The program's time of day is off by that from now on."""
    written = folder / f"{inside.CLOCK}.new"
    written.write_text(str(seconds))
    written.replace(folder / inside.CLOCK)
