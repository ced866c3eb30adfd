"""Runs pytest and writes which functions ran: `python traced.py FILE FOLDER ARGUMENT...`.

FILE: gets them as JSON, each as `path:qualified name`, but for those without a name. FOLDER: the project, whose
functions count; what runs when a module is imported is its `<module>`. Ends with pytest's own code.
"""

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest

_CODES: set[CodeType] = set()


def _trace(frame: FrameType, _event: str, _argument: object) -> None:
    _CODES.add(frame.f_code)


def main(file: Path, folder: str, *arguments: str) -> int:
    """The program."""
    threading.settrace(_trace)
    sys.settrace(_trace)
    code = pytest.main(list(arguments))
    sys.settrace(None)
    file.write_text(json.dumps(sorted(_names(f"{folder}/"))))
    return code


def _names(prefix: str) -> Iterator[str]:
    for code in _CODES:
        if code.co_filename.startswith(prefix) and (code.co_name == "<module>" or not code.co_name.startswith("<")):
            yield f"{code.co_filename.removeprefix(prefix)}:{code.co_qualname}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
