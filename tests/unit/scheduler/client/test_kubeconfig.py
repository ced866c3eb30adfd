"""What a context of one or several kubeconfigs names, and what is said of one that cannot be used."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.client.connection import connect
from scheduler.client.credentials import context_namespace, load
from scheduler.client.errors import NotConfigured
from scheduler.client.kubeconfig import context_of

HERE = "https://127.0.0.1:6443"


def entries(section: str, **named: object) -> list[Mapping[str, object]]:
    return [{"name": name, section.removesuffix("s"): fields} for name, fields in named.items()]


def a_file(path: Path, current: str | None = "x", **sections: list[Mapping[str, object]]) -> Path:
    """A kubeconfig with the context x of cluster c and user u, but for what is given."""
    whole: dict[str, Any] = {
        "clusters": entries("clusters", c={"server": HERE}),
        "users": entries("users", u={}),
        "contexts": entries("contexts", x={"cluster": "c", "user": "u"}),
        **sections,
        **({} if current is None else {"current-context": current}),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole))
    return path


def several(*paths: Path) -> str:
    return os.pathsep.join(map(str, paths))


def test_the_first_file_goes_before_the_others_as_for_kubectl(tmp_path: Path) -> None:
    servers = [entries("clusters", c={"server": f"https://{name}.example"}) for name in ("first", "second")]
    first = a_file(tmp_path / "first", "x", clusters=servers[0])
    second = a_file(
        tmp_path / "second",
        "y",
        clusters=servers[1],
        contexts=entries("contexts", y={"cluster": "c", "namespace": "ml"}),
    )
    files = several(first, second)
    assert (context_of(files, None).name, context_of(files, None).cluster["server"]) == ("x", "https://first.example")
    assert (context_of(files, "y").namespace, context_of(files, "y").cluster["server"]) == (
        "ml",
        "https://first.example",
    )
    unset = a_file(tmp_path / "unset", "", clusters=servers[0])
    assert context_of(several(unset, second), None).name == "y"


def test_a_file_without_a_word_adds_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    assert context_of(several(empty, a_file(tmp_path / "config")), None).name == "x"


def test_paths_are_from_the_folder_of_the_file_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("of-cluster/ca.crt", "of-user/c.crt", "of-user/c.key"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    cluster = {"server": HERE, "certificate-authority": "ca.crt"}
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "bin/login"}
    user = {"client-certificate": "c.crt", "client-key": "c.key", "exec": plugin}
    a_file(tmp_path / "of-cluster/config", clusters=entries("clusters", c=cluster), users=[])
    a_file(tmp_path / "of-user/config", clusters=[], contexts=[], users=entries("users", u=user))
    monkeypatch.chdir(tmp_path)
    found = context_of(several(Path("of-cluster/config"), Path("of-user/config")), None)
    assert found.cluster["certificate-authority"] == str(tmp_path / "of-cluster/ca.crt")
    assert (found.user["client-certificate"], found.user["client-key"]) == (
        str(tmp_path / "of-user/c.crt"), str(tmp_path / "of-user/c.key"),
    )  # fmt: skip
    assert found.user["exec"]["command"] == str(tmp_path / "of-user/bin/login")


def test_a_context_needs_no_user(tmp_path: Path) -> None:
    lone = a_file(tmp_path / "lone", contexts=entries("contexts", x={"cluster": "c"}), users=entries("users", u=None))
    gone = a_file(tmp_path / "gone", contexts=entries("contexts", x={"cluster": "c", "user": "v"}))
    for file in (lone, gone):
        credentials = asyncio.run(load(file, None, {}, tmp_path))
        assert (credentials.context, credentials.configuration.host) == ("x", HERE)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"current": None}, "current-context is not set, and no other context is named"),
        ({"current": "lx"}, "context 'lx' does not exist"),
        ({"clusters": entries("clusters", d={"server": HERE})}, "context 'x': cluster 'c' does not exist"),
        ({"contexts": entries("contexts", x={"user": "u"})}, "context 'x': cluster '' does not exist"),
        ({"clusters": entries("clusters", c={})}, "cluster 'c': server is required"),
        (
            {"clusters": entries("clusters", c={"server": HERE, "certificate-authority": "/nowhere/ca.crt"})},
            "cluster 'c': certificate-authority /nowhere/ca.crt: No such file or directory",
        ),
        (
            {"clusters": entries("clusters", c={"server": HERE, "certificate-authority": "/"})},
            "cluster 'c': certificate-authority /: Is a directory",
        ),
        (
            {"users": entries("users", u={"client-certificate": "/nowhere/c.crt", "client-key-data": "a"})},
            "user 'u': client-certificate /nowhere/c.crt: No such file or directory",
        ),
        ({"users": entries("users", u={"client-certificate-data": "a"})}, "client-key is required beside"),
        (
            {"users": entries("users", u={"token": "t", "as": "jane"})},
            "user 'u': as is not supported, and calls without",
        ),
        ({"users": entries("users", u={"as-groups": ["dev"]})}, "user 'u': as-groups is not supported"),
        ({"users": entries("users", u={"tokenFile": "/nowhere/t"})}, "tokenFile /nowhere/t: No such file or directory"),
        ({"clusters": 2 * entries("clusters", c={"server": HERE})}, "clusters[1].name: 'c' is there twice"),
    ],
)
def test_context_that_cannot_be_used_is_told_with_object_field_and_value(
    sections: Mapping[str, Any], problem: str, tmp_path: Path
) -> None:
    file = a_file(tmp_path / "config", **sections)
    with pytest.raises(NotConfigured) as raised:
        context_namespace(file, None, {}, tmp_path)
    assert str(raised.value).startswith(f"{file}: ")
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("cluster", "user", "problem"),
    [
        ({"certificate-authority-data": "AAAA"}, {}, "certificate-authority of the kubeconfig holds no certificates"),
        (
            {},
            {"client-certificate-data": "AAAA", "client-key-data": "AAAA"},
            "client-certificate and client-key of the",
        ),
    ],
)
def test_file_that_holds_no_certificate_is_named(
    cluster: Mapping[str, str], user: Mapping[str, str], problem: str, tmp_path: Path
) -> None:
    clusters, users = entries("clusters", c={"server": HERE, **cluster}), entries("users", u=user)
    file = a_file(tmp_path / "config", clusters=clusters, users=users)

    async def connecting() -> None:
        async with connect(kubeconfig=file):
            raise AssertionError("nothing is to be connected")

    with pytest.raises(NotConfigured, match=problem):
        asyncio.run(connecting())
