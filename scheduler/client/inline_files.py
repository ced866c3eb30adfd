"""Certificates and keys that stand in a kubeconfig, as the files that TLS libraries read.

On Linux they are files in memory: a key is not left on a disk, and a read-only file system will do. Elsewhere they are
temporary files, which are removed.
Source: memfd_create(2); proc_pid_fd(5).
"""

import os
import tempfile
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any


class InlineFiles:
    """The files, until `close`."""

    def __init__(self) -> None:
        self._paths: dict[bytes, str] = {}
        self._open: list[int] = []

    def put_into(self, section: MutableMapping[str, Any], fields: Iterable[str]) -> None:
        """Write into each field the path of a file with what `FIELD-data` holds. Raises ValueError if it is no base64.

        Source: kubeconfig (v1): the data go before a file that is named as well.
        """
        for field in fields:
            self._put_into(section, field)

    def _put_into(self, section: MutableMapping[str, Any], field: str) -> None:
        data = section.get(f"{field}-data")
        if not isinstance(data, str) or not data:
            return
        try:
            content = b64decode(data, validate=True)
        except Error as error:
            raise ValueError(f"{field}-data: is not base64: {error}") from error
        section[field] = self.path_of(content)
        del section[f"{field}-data"]

    def path_of(self, content: bytes) -> str:
        """The path of a file with this content; the same as long as nothing was closed."""
        if content not in self._paths:
            self._paths[content] = self._in_memory(content) if hasattr(os, "memfd_create") else _on_disk(content)
        return self._paths[content]

    def _in_memory(self, content: bytes) -> str:
        descriptor = os.memfd_create("kubeconfig")
        self._open.append(descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        return f"/proc/self/fd/{descriptor}"

    def close(self) -> None:
        """Remove them; what was read from them stays in use."""
        for descriptor in self._open:
            os.close(descriptor)
        if not self._open:
            for path in self._paths.values():
                with suppress(OSError):
                    Path(path).unlink()
        self._open.clear()
        self._paths.clear()


def _on_disk(content: bytes) -> str:
    descriptor, path = tempfile.mkstemp()
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return path
