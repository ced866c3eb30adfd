"""What `import cel` gives, and what it leaves for later."""

import subprocess
import sys
from types import ModuleType

import cel

LATER = ("cel.compiler", "cel.check", "cel.ext", "cel.syntax", "cel.run.interpreter", "zoneinfo")


def test_all_names_what_there_is() -> None:
    public = {name for name, value in vars(cel).items() if not name.startswith("_") and type(value) is not ModuleType}
    assert sorted(public) == sorted(cel.__all__)


def test_what_only_compiling_needs_is_imported_with_the_first_expression() -> None:
    program = (
        "import cel, sys; before = set(sys.modules); cel.compile('true'); "
        f"print(*[name in known for known in (before, sys.modules) for name in {LATER}])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert found == ["False"] * len(LATER) + ["True"] * len(LATER)
