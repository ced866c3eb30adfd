import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from scheduler.input.documents import MAX_FINDINGS, Finding, Place, RawObject, read
from scheduler.input.yaml_1_1 import MAX_DEPTH
from tests.unit.scheduler.manifests import a_list, a_node, a_pod, text_of


class _Stdin(io.TextIOWrapper):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))


def written(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def names_in(*paths: str) -> list[str]:
    """The names of the objects below the paths, which hold no error."""
    names = []
    for found in read(paths):
        assert isinstance(found, RawObject), found
        metadata = found.raw["metadata"]
        assert isinstance(metadata, dict)
        names.append(metadata["name"])
    return names


def findings_in(*paths: str) -> list[str]:
    return [str(found) for found in read(paths) if isinstance(found, Finding)]


def the_finding_in(path: str) -> str:
    (finding,) = findings_in(path)
    assert "\n" not in finding
    return finding


def test_documents_of_a_file_keep_their_order_and_number(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", text_of(a_node("n1"), a_node("n2")))
    assert [(str(found.place), found.raw["kind"]) for found in read([path]) if isinstance(found, RawObject)] == [
        (f"{path}, document 1", "Node"),
        (f"{path}, document 2", "Node"),
    ]


def test_empty_documents_are_counted_and_hold_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "---\n# nothing\n" + text_of(a_node("n1")) + "---\n")
    assert [found.place for found in read([path])] == [Place(path, 2)]


@pytest.mark.parametrize("content", ["", "\n\n", "# only a remark\n", "---\n---\n", "\ufeff"])
def test_a_file_without_objects_is_a_warning(tmp_path: Path, content: str) -> None:
    (found,) = read([written(tmp_path, "a.yaml", content)])
    assert isinstance(found, Finding)
    assert found.is_warning
    assert str(found) == f"{tmp_path}/a.yaml: contains no objects"


def test_paths_are_read_in_the_order_given(tmp_path: Path) -> None:
    first, second = (written(tmp_path, f"{name}.yaml", text_of(a_node(name))) for name in ("b", "a"))
    assert names_in(first, second) == ["b", "a"]


def test_yaml_and_json_mix(tmp_path: Path) -> None:
    yaml = written(tmp_path, "a.yaml", "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n")
    json = written(tmp_path, "a.json", orjson.dumps(a_node("n2"), option=orjson.OPT_INDENT_2))
    assert names_in(yaml, json) == ["n1", "n2"]


def test_json_is_known_by_its_content_not_by_its_name(tmp_path: Path) -> None:
    assert names_in(written(tmp_path, "dump", b"\n  " + orjson.dumps(a_node("n1")))) == ["n1"]


def test_yaml_in_flow_style_is_not_taken_for_broken_json(tmp_path: Path) -> None:
    assert names_in(written(tmp_path, "a.yaml", "{apiVersion: v1, kind: Node, metadata: {name: n1}}")) == ["n1"]


def test_lines_of_json_are_one_document_each(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a.jsonl", "\n".join(orjson.dumps(a_node(name)).decode() for name in ("n1", "n2")) + "\n\n"
    )
    assert names_in(path) == ["n1", "n2"]
    assert [found.place.document for found in read([path])] == [1, 2]


@pytest.mark.parametrize("between", ["", "\n", " ", "\n "])
def test_many_json_values_cost_as_much_as_they_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    read_by_orjson: list[int] = []
    loads = orjson.loads

    def counted(text: str) -> object:
        read_by_orjson.append(len(text))
        return loads(text)

    monkeypatch.setattr(orjson, "loads", counted)
    text = between.join(orjson.dumps(a_node(f"n{number}")).decode() for number in range(1000)) + "\n"
    assert len(names_in(written(tmp_path, "a.json", text))) == 1000
    assert sum(read_by_orjson) < 4 * len(text)


def test_json_values_may_follow_each_other_without_lines(tmp_path: Path) -> None:
    content = orjson.dumps(a_node("n1"), option=orjson.OPT_INDENT_2) + orjson.dumps(a_node("n2"))
    assert names_in(written(tmp_path, "a.json", content)) == ["n1", "n2"]


def test_a_list_stands_for_its_items_with_their_positions(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", text_of(a_list(a_node("n1"), a_node("n2"))))
    assert [str(found.place) for found in read([path])] == [
        f"{path}, document 1, items[0]",
        f"{path}, document 1, items[1]",
    ]


def test_lists_may_stand_in_lists(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", text_of(a_list(a_list(a_node("n1")), a_list(a_list(a_node("n2"))))))
    assert names_in(path) == ["n1", "n2"]
    assert [found.place.items for found in read([path])] == [(0, 0), (1, 0, 0)]


def test_a_plain_sequence_stands_for_its_entries(tmp_path: Path) -> None:
    assert names_in(written(tmp_path, "a.json", orjson.dumps([a_node("n1"), [a_node("n2")]]))) == ["n1", "n2"]


def test_items_of_a_typed_list_take_kind_and_version_from_it(tmp_path: Path) -> None:
    bare = {"metadata": {"name": "n1"}}
    path = written(tmp_path, "a.json", orjson.dumps(a_list(bare, kind="NodeList")))
    (found,) = read([path])
    assert isinstance(found, RawObject)
    assert found.raw == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


def test_items_of_a_typed_list_keep_the_kind_that_they_say(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", orjson.dumps(a_list(a_pod("p1"), kind="NodeList")))
    (found,) = read([path])
    assert isinstance(found, RawObject)
    assert found.raw["kind"] == "Pod"


def test_an_item_of_a_typed_list_that_is_no_object_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", orjson.dumps(a_list("n1", kind="NodeList")))
    assert the_finding_in(path) == f'{path}, document 1, items[0]: is not an object but text: "n1"'


def test_an_item_of_a_plain_list_takes_nothing_from_it(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", orjson.dumps(a_list({"metadata": {"name": "n1"}})))
    (found,) = read([path])
    assert isinstance(found, RawObject)
    assert found.raw == {"metadata": {"name": "n1"}}


@pytest.mark.parametrize("items", [[], None])
def test_an_empty_list_holds_nothing(tmp_path: Path, items: object) -> None:
    raw = {"apiVersion": "v1", "kind": "List", "items": items}
    assert list(read([written(tmp_path, "a.json", orjson.dumps(raw))])) == []


def test_a_kind_that_ends_in_list_without_items_is_an_object(tmp_path: Path) -> None:
    raw = {"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "x"}}
    assert names_in(written(tmp_path, "a.json", orjson.dumps(raw))) == ["x"]


def test_items_that_are_no_list_are_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "apiVersion: v1\nkind: PodList\nitems: 5\n")
    assert the_finding_in(path) == f"{path}, document 1: PodList: items is not a list but a number: 5"


@pytest.mark.parametrize(
    ("document", "described"),
    [("hello", 'text: "hello"'), ("5", "a number: 5"), ("1.5", "a number: 1.5"), ("yes", "a boolean: true")],
)
def test_a_document_that_is_no_object_is_an_error_that_shows_it(tmp_path: Path, document: str, described: str) -> None:
    path = written(tmp_path, "a.yaml", f"---\n{document}\n")
    assert the_finding_in(path) == f"{path}, document 1: is not an object but {described}"


def test_an_item_that_is_no_object_is_an_error_with_its_position(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", orjson.dumps(a_list(a_node("n1"), 5)))
    assert findings_in(path) == [f"{path}, document 1, items[1]: is not an object but a number: 5"]


def test_what_is_no_object_is_shown_in_short(tmp_path: Path) -> None:
    assert len(the_finding_in(written(tmp_path, "a.yaml", "x" * 1_000_000))) < 300 + len(str(tmp_path))


def test_standard_input_is_read_where_a_dash_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", _Stdin(text_of(a_node("n2")).encode()))
    path = written(tmp_path, "a.yaml", text_of(a_node("n1")))
    assert names_in(path, "-") == ["n1", "n2"]


def test_an_error_in_standard_input_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", _Stdin(b"a: [1"))
    assert the_finding_in("-").startswith("standard input, document 1: is not valid YAML or JSON: line ")


def test_an_object_of_standard_input_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", _Stdin(text_of(a_node("n1")).encode()))
    assert [str(found.place) for found in read(["-"])] == ["standard input, document 1"]


def test_a_closed_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert the_finding_in("-").startswith("standard input: cannot be read")


def test_a_directory_is_read_recursively_by_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.yml", "a/b/c.json", "C.YAML"):
        written(tmp_path, name, text_of(a_node(name.replace("/", "-").lower())))
    assert names_in(str(tmp_path)) == ["c.yaml", "a-b-c.json", "a-z.yml", "b.yaml"]


def test_other_files_of_a_directory_are_left_alone(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml", text_of(a_node("n1")))
    written(tmp_path, "README.md", "hello")
    written(tmp_path, "core.gz", b"\x1f\x8b\x00")
    assert names_in(str(tmp_path)) == ["n1"]


def test_a_directory_named_like_a_file_is_a_directory(tmp_path: Path) -> None:
    written(tmp_path, "x.yaml/a.yaml", text_of(a_node("n1")))
    assert names_in(str(tmp_path)) == ["n1"]
    assert names_in(str(tmp_path / "x.yaml")) == ["n1"]


def test_a_must_gather_is_read(tmp_path: Path) -> None:
    core = "cluster-scoped-resources/core"
    written(tmp_path, f"{core}/nodes/n1.yaml", text_of(a_node("n1")))
    written(tmp_path, "cluster-scoped-resources/resource.k8s.io/resourceslices/s1.yaml", text_of(a_node("s1")))
    written(tmp_path, "namespaces/ml/core/pods.yaml", text_of(a_list(a_pod("p1"), kind="PodList")))
    written(tmp_path, "namespaces/ml/pods/p1/p1.yaml", text_of(a_pod("p1")))
    written(tmp_path, "namespaces/ml/pods/p1/main/logs/current.log", "hello")
    assert names_in(str(tmp_path)) == ["n1", "s1", "p1", "p1"]


def test_a_directory_without_manifests_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, "a.txt", "hello")
    assert the_finding_in(str(tmp_path)) == f"{tmp_path}: the directory contains no .yaml, .yml or .json file"


def test_an_empty_path_shows_in_its_error() -> None:
    assert the_finding_in("") == "'': cannot be read: No such file or directory"


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "none.yaml")
    assert the_finding_in(path) == f"{path}: cannot be read: No such file or directory"


def test_a_link_to_a_file_is_read_and_one_to_nowhere_is_an_error(tmp_path: Path) -> None:
    target = written(tmp_path, "target", text_of(a_node("n1")))
    (tmp_path / "link.yaml").symlink_to(target)
    (tmp_path / "nowhere.yaml").symlink_to(tmp_path / "none")
    assert names_in(str(tmp_path / "link.yaml")) == ["n1"]
    assert "No such file" in the_finding_in(str(tmp_path / "nowhere.yaml"))


def test_a_link_to_nowhere_in_a_directory_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml", text_of(a_node("n1")))
    (tmp_path / "nowhere.yaml").symlink_to(tmp_path / "none")
    assert len(findings_in(str(tmp_path))) == 1


def test_what_cannot_be_read_of_a_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "a.yaml", text_of(a_node("n1")))
    written(tmp_path, "closed/b.yaml", text_of(a_node("n2")))
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    scandir = os.scandir

    def closed(path: str) -> Any:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    assert findings_in(str(tmp_path)) == [
        f"{tmp_path}/closed: cannot be read: Permission denied",
        f"{tmp_path}/loop.yaml: cannot be read: Too many levels of symbolic links",
        f"{tmp_path}/pipe.yaml: cannot be read: not a regular file",
    ]


def test_below_a_directory_what_is_no_object_is_no_error(tmp_path: Path) -> None:
    path = written(tmp_path, "a/health.json", '["ok", {"healthy": true}]')
    assert [(found.raw, found.is_named) for found in read([str(tmp_path)]) if isinstance(found, RawObject)] == [
        ({}, False),
        ({"healthy": True}, False),
    ]
    assert findings_in(path) == [f'{path}, document 1, items[0]: is not an object but text: "ok"']


def test_a_file_name_with_control_characters_is_reported_without_them(tmp_path: Path) -> None:
    finding = the_finding_in(str(tmp_path / "a\x1b[31m.yaml"))
    assert "\x1b" not in finding
    assert "a\\x1b[31m.yaml" in finding


def test_a_directory_that_links_to_itself_ends(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml", text_of(a_node("n1")))
    (tmp_path / "self").symlink_to(tmp_path)
    assert names_in(str(tmp_path)) == ["n1"]


def test_line_ends_and_byte_order_mark_of_windows_are_read(tmp_path: Path) -> None:
    text = "apiVersion: v1\r\nkind: Node\r\nmetadata:\r\n  name: n1\r\n---\r\n"
    assert names_in(written(tmp_path, "a.yaml", b"\xef\xbb\xbf" + text.encode())) == ["n1"]


def test_a_byte_order_mark_before_json_is_read(tmp_path: Path) -> None:
    assert names_in(written(tmp_path, "a.json", b"\xef\xbb\xbf" + orjson.dumps(a_node("n1")))) == ["n1"]


def test_text_of_all_languages_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, "träin 🚀.yaml", text_of(a_node("nöd-🚀-節點")))
    assert names_in(path) == ["nöd-🚀-節點"]


def test_binary_content_is_an_error_with_byte_and_offset(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", bytes(range(1, 256)))
    assert the_finding_in(path) == f"{path}: is not UTF-8 text: byte 0x80 at offset 127"


def test_a_nul_byte_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", b"a: b\n\0\0")
    assert the_finding_in(path) == f"{path}: is not text: a NUL byte at offset 5"


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf_16_with_its_mark_is_read_as_kubectl_reads_it(mark: bytes, tmp_path: Path) -> None:
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}[mark]
    assert names_in(written(tmp_path, "a.yaml", mark + text_of(a_node("nöd-🚀")).encode(encoding))) == ["nöd-🚀"]


def test_utf_16_that_is_cut_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", b"\xff\xfea\0b")
    assert the_finding_in(path) == f"{path}: is not UTF-16 text: byte 0x62 at offset 4"


def test_another_encoding_is_an_error(tmp_path: Path) -> None:
    assert "is not UTF-8 text" in the_finding_in(written(tmp_path, "a.yaml", text_of(a_node("ä")).encode("latin-1")))


def zipped(text: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.yaml", text)
    return file.getvalue()


@pytest.mark.parametrize(
    ("pack", "what"),
    [
        (gzip.compress, "is compressed by gzip"),
        (bz2.compress, "is compressed by bzip2"),
        (lzma.compress, "is compressed by xz"),
        (lambda text: b"\x28\xb5\x2f\xfd" + text, "is compressed by zstd"),
        (zipped, "is a zip archive"),
        (lambda text: b"a.yaml".ljust(257, b"\0") + b"ustar\x0000" + text, "is a tar archive"),
    ],
)
def test_a_packed_file_is_named_as_what_it_is(tmp_path: Path, pack: Callable[[bytes], bytes], what: str) -> None:
    path = written(tmp_path, "a.yaml.packed", pack(text_of(a_node()).encode()))
    assert the_finding_in(path) == f"{path}: {what}: unpack it first"


def test_files_that_were_joined_have_a_mark_in_the_middle(tmp_path: Path) -> None:
    first, second = (f"\ufeff{text_of(a_node(name))}" for name in ("a", "b"))
    path = written(tmp_path, "a.yaml", f"{first}{second}".encode())
    assert names_in(path) == ["a", "b"]


def test_truncated_yaml_is_an_error_with_its_line_and_what_was_before_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", text_of(a_node("n1")) + '---\napiVersion: v1\nkind: "No')
    first, second = read([path])
    assert isinstance(first, RawObject)
    assert isinstance(second, Finding)
    assert str(second).startswith(f"{path}, document 2: is not valid YAML or JSON: line 5, column 10: ")


def test_truncated_json_is_an_error(tmp_path: Path) -> None:
    content = orjson.dumps(a_node("n1"))
    assert "is not valid YAML or JSON: line 1, column" in the_finding_in(written(tmp_path, "a.json", content[:-5]))


def test_a_truncated_line_of_json_is_an_error_with_its_place(tmp_path: Path) -> None:
    content = orjson.dumps(a_node("n1")) + b"\n" + orjson.dumps(a_node("n2"))[:-5]
    assert "is not valid JSON: line 2, column" in the_finding_in(written(tmp_path, "a.jsonl", content))


DEEP = 200_000


@pytest.mark.parametrize("content", ["[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP])
def test_json_that_is_nested_absurdly_deep_is_an_error(tmp_path: Path, content: str) -> None:
    assert "nest" in the_finding_in(written(tmp_path, "a.json", content))


def test_json_has_the_limit_of_nesting_that_yaml_has(tmp_path: Path) -> None:
    for depth in (MAX_DEPTH + 1, 1000, 9000):
        content = '{"a":' * depth + "1" + "}" * depth
        assert f"more than {MAX_DEPTH} levels" in the_finding_in(written(tmp_path, "a.json", content))


def test_documents_of_yaml_may_follow_one_of_json(tmp_path: Path) -> None:
    json = orjson.dumps(a_node("n1"), option=orjson.OPT_INDENT_2).decode()
    assert names_in(written(tmp_path, "a.yaml", f"{json}\n---\n{json.replace('n1', 'n2')}\n")) == ["n1", "n2"]


def test_json_of_several_documents_is_separated_as_yaml_is(tmp_path: Path) -> None:
    json = [orjson.dumps(a_node(name)).decode() for name in ("n1", "n2")]
    path = written(tmp_path, "a.yaml", f"{json[0]}\n---\n{json[1]}\n---\n  apiVersion: v1\n  kind: [\n")
    first, second, error = read([path])
    assert [first.place.document, second.place.document] == [1, 2]
    assert str(error).startswith(f"{path}, document 3: is not valid YAML or JSON: line 7, column 1: ")


@pytest.mark.parametrize("rest", [" hello", " 5", "\n- a", ' {"a": 1}}'])
def test_what_follows_json_without_a_line_between_is_an_error(tmp_path: Path, rest: str) -> None:
    finding = findings_in(written(tmp_path, "a.json", orjson.dumps(a_node("n1")).decode() + rest))[-1]
    assert "is not valid JSON: line " in finding
    assert "expected a value or ---" in finding


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a":{"\\\\":1,"b" : 1,"b":2}}', '{"x":":","a":[{"a":1,"b":2,"a":1}]}']
)
def test_two_keys_of_one_name_are_an_error_in_json_as_in_yaml(tmp_path: Path, text: str) -> None:
    assert "appears twice in one object" in the_finding_in(written(tmp_path, "a.json", text))


@pytest.mark.parametrize("text", ["a:b", '":', '\\":', "\\", '\\"', ':80"'])
def test_texts_that_look_like_keys_of_json_are_texts(tmp_path: Path, text: str) -> None:
    raw = {**a_node("n1"), "x": {text: text}}
    (found,) = read([written(tmp_path, "a.json", orjson.dumps(raw))])
    assert isinstance(found, RawObject)
    assert found.raw == raw


def test_numbers_of_json_are_those_of_kubectl(tmp_path: Path) -> None:
    numbers = "2.0, 1e2, 1.5, 18446744073709551615, 18446744073709551616, -9223372036854775809, 1"
    (found,) = read([written(tmp_path, "a.json", f'{{"kind": "Pod", "x": [{numbers}]}}')])
    assert isinstance(found, RawObject)
    expected = [2, 100, 1.5, 2**64 - 1, float(2**64), -float(2**63), 1]
    assert found.raw["x"] == expected
    assert isinstance(found.raw["x"], list)
    assert list(map(type, found.raw["x"])) == list(map(type, expected))


def test_a_number_too_large_for_json_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", '{"kind": "Pod",\n "x": 1e400}')
    assert the_finding_in(path).startswith(f"{path}, document 1: is not valid JSON: line 2, column ")


def test_lists_in_lists_as_deep_as_allowed_are_walked(tmp_path: Path) -> None:
    depth = MAX_DEPTH - 10
    path = written(tmp_path, "a.yaml", "[" * depth + orjson.dumps(a_node("n1")).decode() + "]" * depth)
    assert names_in(path) == ["n1"]


def test_lists_that_aliases_nest_too_deeply_are_an_error(tmp_path: Path) -> None:
    around = "[" * (MAX_DEPTH - 1) + "{}" + "]" * (MAX_DEPTH - 1)
    path = written(tmp_path, "a.yaml", f"- &a {around.format('5')}\n- &b {around.format('*a')}\n")
    assert f"more than {MAX_DEPTH} levels" in the_finding_in(path)


def test_half_a_character_in_json_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\\ud800"}}')
    assert the_finding_in(path).startswith(path)


def test_a_number_of_thousands_of_digits_in_json_is_read_or_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", '{"apiVersion": "v1", "kind": "Pod", "x": ' + "9" * 5000 + "}")
    assert len(list(read([path]))) == 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_finite_is_an_error_in_json_as_in_yaml(tmp_path: Path, number: str) -> None:
    assert "finite" in the_finding_in(written(tmp_path, "a.json", f'{{"kind": "Pod", "x": {number}}}'))


def test_a_list_of_a_million_errors_is_reported_in_short(tmp_path: Path) -> None:
    levels = [f"- &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 4)]
    path = written(tmp_path, "a.yaml", "\n".join(["- &a0 [x, x, x, x, x, x, x, x, x, x]", *levels]))
    *first, last = findings_in(path)
    assert len(first) == MAX_FINDINGS
    assert last == f"{path}, document 1: and {11_110 - MAX_FINDINGS} more entries are not objects"


@pytest.mark.parametrize("text", ["? {0}\n: 1\n? {0}\n: 2\n", "a: *{0}\n"])
def test_a_huge_word_is_reported_in_short(tmp_path: Path, text: str) -> None:
    assert len(the_finding_in(written(tmp_path, "a.yaml", text.format("x" * 1_000_000)))) < 1000
