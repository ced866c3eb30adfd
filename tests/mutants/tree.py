"""A copy of the project, in which tests run and sources are broken; the user's own files stay as they are."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests import extent

TRACED = Path(__file__).with_name("traced.py")
DAY = "2026-11-28"
"""Whose parts of sweeps the tests run: always the same, since results are kept. A night's sweeps take hours."""
NOT_COPIED = (".git", ".venv", ".*cache", ".hypothesis", "__pycache__", "build", "dist", "*.egg-info")


class BrokenTestsError(Exception):
    """Tests fail although nothing was broken."""


@dataclass(frozen=True)
class Trace:
    """What a test file ran. functions: as `path:qualified name`."""

    seconds: float
    functions: frozenset[str]

    @property
    def modules(self) -> AbstractSet[str]:
        """The paths of the modules that ran."""
        return {name.partition(":")[0] for name in self.functions}


class Tree:
    """One copy; it runs one thing at a time."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.root = folder / "tree"
        self._temporary = folder / "temporary"
        self._temporary.mkdir(parents=True)
        shutil.copytree(project, self.root, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))

    async def trace(self, test: str) -> Trace:
        """What the test file runs, and how long it takes while it is watched."""
        file, started = self._temporary / "trace.json", time.monotonic()
        command = ["-P", str(TRACED), str(file), str(self.root), "-q", "-p", "no:cacheprovider", test]
        code, output = await self._run(command)
        if code:
            raise BrokenTestsError(f"{test} fails without a mutant:\n{output[-3000:]}")
        return Trace(time.monotonic() - started, frozenset(json.loads(file.read_text())))

    async def passes(self, path: str, text: str, tests: Sequence[str], limit_s: float) -> bool | None:
        """Whether the tests pass with this text in the file; None where they take longer than `limit_s`."""
        file = self.root / path
        original, stat = file.read_text(), file.stat()
        file.write_text(text)
        # A compiled file is recognized by the time and the size of its source.
        os.utime(file, (stat.st_mtime + 1, stat.st_mtime + 1))
        try:
            code, _ = await self._run(["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests], limit_s)
        finally:
            file.write_text(original)
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        return None if code is None else code == 0

    async def _run(self, arguments: Sequence[str], limit_s: float | None = None) -> tuple[int | None, str]:
        """The code and the output of Python; no code where it has been ended after `limit_s`."""
        as_in_gate = {extent.EXTENT: "", extent.DAY: DAY}
        environment = {**os.environ, **as_in_gate, "PYTHONPATH": str(self.root), "TMPDIR": str(self._temporary)}
        if limit_s is not None:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            cwd=self.root,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limit_s):
                output, _ = await process.communicate()
        except TimeoutError:
            return None, ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return process.returncode, output.decode(errors="replace")
