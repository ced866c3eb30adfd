"""Certificates and keys in a kubeconfig are read without a file on a disk, and without a folder for one."""

import asyncio
import json
import os
import ssl
import tempfile
from base64 import b64encode
from pathlib import Path

import pytest
import trustme

from scheduler.client.connection import connect
from scheduler.client.credentials import InlineFiles, load
from scheduler.client.errors import NotConfigured


def encoded(blob: trustme.Blob) -> str:
    return b64encode(blob.bytes()).decode()


def a_kubeconfig(folder: Path, **changed: str) -> Path:
    authority = trustme.CA()
    client = authority.issue_cert("client@example.com")
    cluster = {"server": "https://a.example", "certificate-authority-data": encoded(authority.cert_pem)}
    user = {
        "client-certificate-data": encoded(client.cert_chain_pems[0]),
        "client-key-data": encoded(client.private_key_pem),
    }
    config = {
        "clusters": [{"name": "c", "cluster": {**cluster, **changed}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def contents_of(paths: list[str]) -> list[bytes]:
    return [Path(path).read_bytes() for path in paths]


def files_of(kubeconfig: Path) -> tuple[list[str], list[bytes]]:
    """The paths of CA, certificate and key, and what they hold while the credentials are in use."""

    async def read() -> tuple[list[str], list[bytes]]:
        found = await load(kubeconfig, None, {}, kubeconfig.parent)
        own = found.configuration
        paths = [str(own.ssl_ca_cert), str(own.cert_file), str(own.key_file)]
        context = ssl.create_default_context(cafile=paths[0])
        context.load_cert_chain(paths[1], paths[2])
        contents = contents_of(paths)
        found.close()
        return paths, contents

    return asyncio.run(read())


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_nothing_is_left_of_what_stands_in_a_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_memory_files: bool
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create")
    paths, contents = files_of(a_kubeconfig(tmp_path))
    assert [content[:10] for content in contents] == [b"-----BEGIN"] * 3
    assert [path.startswith(str(folder)) for path in paths] == [not has_memory_files] * 3
    assert [path for path in paths if Path(path).is_file()] == []
    assert list(folder.iterdir()) == []


def test_a_folder_for_temporary_files_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))

    async def server() -> str:
        async with connect(kubeconfig=a_kubeconfig(tmp_path)) as connection:
            return connection.server

    assert asyncio.run(server()) == "https://a.example"


def test_data_that_are_not_base64_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="certificate-authority-data: is not base64"):
        files_of(a_kubeconfig(tmp_path, **{"certificate-authority-data": "?"}))


def test_data_go_before_a_file_and_equal_contents_are_one_file() -> None:
    files = InlineFiles()
    section = {"client-key": "/absent", "client-key-data": b64encode(b"key").decode(), "other": "x"}
    files.put_into(section, ("client-key", "client-certificate"))
    assert section.keys() == {"client-key", "other"}
    assert Path(section["client-key"]).read_bytes() == b"key"
    assert files.path_of(b"key") == section["client-key"]
    files.close()
    assert not Path(section["client-key"]).is_file()
