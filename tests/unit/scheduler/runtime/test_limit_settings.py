"""Limits are read strictly, from the file and from a ConfigMap, and every error says where and what.

Those of a ConfigMap that cannot be read, and was read before, stay in force.
"""

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.limits import ONE_DEVICE, CountedDevices, Namespaces, TenantLimit
from allocator.model import Requirement
from cel.values.quantity import Format
from scheduler.client.api_resources import CONFIG_MAPS
from scheduler.client.watch_states import (
    Applied,
    Deleted,
    Entry,
    Found,
    Key,
    Restarted,
    Undecodable,
    Undecoded,
    input_of,
    page_of,
)
from scheduler.client.watcher import Store
from scheduler.decision.cluster import Cluster
from scheduler.input import yaml_1_1
from scheduler.runtime.cluster_updates import ClusterUpdates
from scheduler.runtime.configuration import Configuration, InvalidConfiguration, load
from scheduler.runtime.limit_settings import MOST_LIMITS, limits_decoder
from scheduler.terminal_text import LONGEST_MESSAGE
from tests.builders import an_allocated_claim, kubernetes, watched
from tests.unit.scheduler.runtime.test_configuration import stored

Json = Any  # of whatever type: what a ConfigMap may hold

ALL = """
limits:
- name: team-a-h100
  namespaces: {names: [team-a]}
  count: {deviceClassName: h100}
  most: 16
- name: memory
  namespaces: {selector: "tier in (gold,silver)", each: true}
  count: {capacity: memory, driver: gpu.example.com}
  most: 160Gi
- name: slices
  count: {counter: slices, selector: 'device.driver == "gpu.example.com"'}
  share: 12.5%
  soft: true
"""


def test_limits_are_what_the_file_says(tmp_path: Path) -> None:
    tier = (Requirement("tier", "In", ("gold", "silver")),)
    of_a, memory, slices = load(Configuration, stored(tmp_path, ALL), {}).limits_in_force()
    assert of_a == TenantLimit(
        "team-a-h100", Namespaces(frozenset({"team-a"})), CountedDevices(class_name="h100"), most=16 * ONE_DEVICE
    )
    assert memory == TenantLimit(
        "memory",
        Namespaces(labels=tier, each=True),
        CountedDevices("capacity", "memory", "gpu.example.com"),
        most=160 * 2**30 * ONE_DEVICE,
        format=Format.BINARY_SI,
    )
    assert slices == TenantLimit(
        "slices",
        counted=CountedDevices("counters", "slices", selectors=('device.driver == "gpu.example.com"',)),
        share=Fraction(1, 8),
        soft=True,
    )


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ("{name: a}", "limits[0].most: either this or limits[0].share must be set"),
        ("{name: a, most: 1, share: 5%}", "limits[0].most: either this or limits[0].share must be set (got 1)"),
        ("{name: a, most: -1}", "limits[0].most: must not be negative (got -1)"),
        ("{name: a, most: 1500m}", 'limits[0].most: must be a whole number of devices (got "1500m")'),
        ("{name: a, share: 101%}", "limits[0].share: must be a percentage above 0% and up to 100%"),
        ("{name: a, share: 1/2%}", "limits[0].share: must be a percentage above 0% and up to 100%"),
        ("{name: a, share: 1e-999999999%}", "limits[0].share: must be a percentage above 0% and up to 100%"),
        ("{name: a, share: 0.0000000001%}", "limits[0].share: must be a percentage above 0% and up to 100%"),
        ("{name: a, most: 1e999999999}", "limits[0].most: quantities of more than 10240 digits are not supported"),
        ("{name: A, most: 1}", "limits[0].name: "),
        ("{name: a, most: 1, hard: true}", "limits[0].hard: unknown field (got true)"),
        ("{name: a, most: 1, namespaces: {names: []}}", "limits[0].namespaces.names: "),
        ("{name: a, most: 1, namespaces: {names: [a.b]}}", "limits[0].namespaces.names[0]: "),
        ("{name: a, most: 1, namespaces: {selector: 'a,'}}", "limits[0].namespaces.selector: "),
        ("{name: a, most: 1, count: {driver: a_b}}", "limits[0].count.driver: "),
        ("{name: a, most: 1, count: {deviceClassName: H}}", "limits[0].count.deviceClassName: "),
        (
            "{name: a, most: 1, count: {capacity: m, counter: slices}}",
            "limits[0].count.counter: must not be set beside",
        ),
        ("{name: a, most: 1, count: {selector: device.x}}", "limits[0].count.selector: is no CEL expression: "),
        ("{name: a, most: 1}, {name: a, most: 2}", 'limits[1].name: must be unique (got "a")'),
    ],
)
def test_error_names_field_and_value(tmp_path: Path, limit: str, problem: str) -> None:
    with pytest.raises(InvalidConfiguration) as invalid:
        load(Configuration, stored(tmp_path, f"limits: [{limit}]\n"), {})
    (only,) = invalid.value.problems
    assert only.partition(".yaml: ")[2].startswith(problem)


@pytest.mark.parametrize("name", ["limits", "a/", "/b", "A/b", "a/b/c"])
def test_config_map_has_namespace_and_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidConfiguration, match="limitsConfigMap: "):
        load(Configuration, stored(tmp_path, f"limitsConfigMap: {name}\n"), {})


def found_in(data: Json, *of_file: str, uid: str = "u", version: int = 1) -> Found[tuple[TenantLimit, ...]]:
    """The ConfigMap as the cache has it from the watch, and from a list."""
    metadata = {"namespace": "a", "name": "dra-limits", "uid": uid, "resourceVersion": str(version)}
    kind, api_version = CONFIG_MAPS.kind, "v1"
    config_map = {"kind": kind, "apiVersion": api_version, "metadata": metadata, "data": data}
    decoder = limits_decoder([TenantLimit(name) for name in of_file])
    event = input_of("watch", orjson.dumps({"type": "ADDED", "object": config_map}), decoder)
    of_list = {"resourceVersion": str(version)}
    listed = {"kind": f"{kind}List", "apiVersion": api_version, "metadata": of_list, "items": [config_map]}
    page = page_of("list", orjson.dumps(listed), decoder)
    assert isinstance(event, Applied)
    assert page.objects == (event.object,)
    return event.object


def limits_of(text: str) -> Sequence[TenantLimit]:
    found = found_in({"limits": text, "README.md": "What each team may use."})
    assert isinstance(found, Entry), found
    return found.value


def test_config_map_has_the_same_list() -> None:
    [limit] = limits_of("- {name: a, most: 2}")
    assert limit == TenantLimit("a", most=2 * ONE_DEVICE)
    assert limits_of('[{"name": "a", "most": 2}]') == (limit,)
    assert limits_of("") == limits_of("[]") == ()


def test_config_map_says_what_the_file_says(tmp_path: Path) -> None:
    of_file = load(Configuration, stored(tmp_path, ALL), {}).limits_in_force()
    assert limits_of(ALL.removeprefix("\nlimits:")) == of_file


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "data: has no key 'limits'"),
        (None, "data: has no key 'limits'"),
        ("limits", 'data: must be an object (got "limits")'),
        ({"limits": 1}, "data[limits]: must be a string (got 1)"),
        ({"limits": "- {"}, "data[limits]: "),
        ({"limits": "{}"}, "data[limits]: limits: "),
        ({"limits": "- {name: a, most: 1, x: 1}"}, "data[limits]: limits[0].x: unknown field (got 1)"),
        ({"limits": "- {name: a, most: -1}"}, "data[limits]: limits[0].most: must not be negative (got -1)"),
        ({"limits": "- {name: of-file, most: 1}"}, 'data[limits]: limits[0].name: must be unique (got "of-file")'),
        ({"limits": "-\n" * 1_001}, "data[limits]: must not have more than 1,000 entries, has 1,001"),
        ({"limits": "---\n" * 1_001}, "data[limits]: must not have more than 1,000 entries, has 1,001"),
        ({"limits": " " * 300_000}, "data[limits]: must not be longer than 262,144 characters, is 300,000"),
    ],
)
def test_error_in_a_config_map_names_field_and_value(data: Json, problem: str) -> None:
    found = found_in(data, "of-file")
    assert isinstance(found, Undecoded)
    assert found.error.startswith(problem)


ABSURD = (
    *("1e999999999", "'1e999999999'", "-1e999999999", "1e-999999999", "0x" + "f" * 5000, "9" * 20_000, "1:30", ".inf"),
    *(
        "'1e999999999%'",
        "\uff11\uff12",
        "\uff11\uff12%",
        "1_0%",
        "",
        "~",
        "yes",
        "2020-01-01",
        "'\\ud800'",
        "a" * 50_000,
    ),
    *("a" * 50_000, "[]", "{}", "&a [*a]", "*a", "!!binary aaaa", "[" * 5000),
    *("[" + "A_B," * 50_000 + "]", "'" + "a," * 5000 + "'"),
)
FIELDS = ("name", "most", "share", "soft", "namespaces", "count", "namespaces: {names", "namespaces: {selector")
FIELDS_OF_COUNT = tuple(f"count: {{{one}" for one in ("capacity", "counter", "driver", "deviceClassName", "selector"))


@given(st.sampled_from((*FIELDS, *FIELDS_OF_COUNT)), st.sampled_from(ABSURD), st.integers(0, 300))
def test_whatever_a_config_map_holds_it_is_refused_in_few_words_and_is_no_error_of_the_program(
    field: str, value: str, more: int
) -> None:
    closing = "}" if "{" in field else ""
    limit = f"- {{name: a, most: 1, {field}: {value}{closing}}}\n"
    for found in (found_in({"limits": limit}), found_in({"limits": limit + "- {name: a, most: 1}\n" * more})):
        if isinstance(found, Undecoded):
            assert found.defect is None
            assert len(found.error) <= LONGEST_MESSAGE


@pytest.mark.parametrize("second", ["- {name: other, most: 2}", "- {name: other, most: many}"], ids=["good", "bad"])
def test_lists_that_come_by_turns_are_read_once(second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a thousand limits takes half a second, and two writers may disagree without end."""
    read: list[str] = []
    documents = yaml_1_1.documents

    def counted(text: str) -> Any:
        read.append(text)
        return documents(text)

    monkeypatch.setattr(yaml_1_1, "documents", counted)
    decode = limits_decoder(())
    texts = [f"- {{name: once-{second.count('many')}, most: 1}}", second]
    for _ in range(5):
        for text in texts:
            with suppress(Undecodable):
                decode({"data": {"limits": text}})
    assert read == texts


def test_of_many_errors_in_a_config_map_the_first_are_told() -> None:
    for limit in ("- {name: a, most: 1}\n", "- {name: a, most: [1]}\n", "-\n"):
        found = found_in({"limits": limit * MOST_LIMITS})
        assert isinstance(found, Undecoded)
        assert found.error.startswith("data[limits]: limits[")
        assert len(found.error) == LONGEST_MESSAGE


OF_FILE = TenantLimit("of-file", most=ONE_DEVICE)
BAD = -1
OfLimits = Found[tuple[TenantLimit, ...]]


class Followed:
    """What a program does with the ConfigMap that it follows, beside a limit of its file."""

    def __init__(self) -> None:
        self.store: Store[tuple[TenantLimit, ...]] = Store(needs_all=True)
        self.cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        self.updates = ClusterUpdates(self.cluster, [OF_FILE])
        self.store.on_change(self.on_change)
        self.version = 1
        self.uid = 1

    def on_change(self, old: OfLimits | None, new: OfLimits | None) -> None:
        self.updates.update(CONFIG_MAPS, old, new)

    def written(self, most: int) -> OfLimits:
        self.version += 1
        data = {"limits": f"- {{name: followed, most: {most}}}"}
        return found_in(data, OF_FILE.name, uid=str(self.uid), version=self.version)

    def change(self, most: int) -> None:
        self.store.take(Applied(self.written(most)))

    def delete(self) -> None:
        self.version += 1
        self.store.take(Deleted(Key("a", "dra-limits"), str(self.uid), self.version))
        self.uid += 1

    def list_anew(self, most: int) -> None:
        """It was deleted and created again while the watch was down."""
        self.uid += 1
        found = self.written(most)
        self.store.take(Restarted((found,), self.version))

    def most(self) -> int | None:
        """What the ConfigMap's limit leaves; None where none is in force."""
        of_file, *followed = self.cluster.fleet.current.limited.limits.limits
        assert of_file == OF_FILE
        return (followed[0].most or 0) // ONE_DEVICE if followed else None


@pytest.mark.parametrize("way", ["changed", "deleted and created again", "the same, seen by a list"])
def test_limits_stay_when_their_config_map_cannot_be_read(way: str, caplog: pytest.LogCaptureFixture) -> None:
    followed = Followed()
    followed.change(2)
    match way:
        case "changed":
            followed.change(BAD)
        case "deleted and created again":
            followed.delete()
            assert followed.most() is None
            followed.change(BAD)
        case _:
            followed.list_anew(BAD)
    assert followed.most() == 2
    trouble = (
        "ConfigMap a/dra-limits cannot be read, the 1 limits that were read from it last stay in force: "
        "data[limits]: limits[0].most: must not be negative (got -1)"
    )
    assert followed.updates.limits_trouble == trouble
    assert caplog.messages.count(trouble) == 1
    followed.change(3)
    assert (followed.most(), followed.updates.limits_trouble) == (3, "")


def test_limit_that_is_exceeded_is_told_once_until_it_is_so_no_more(caplog: pytest.LogCaptureFixture) -> None:
    followed = Followed()
    claims = [an_allocated_claim(f"gpu-{number}", name=f"held-{number}") for number in range(2)]
    text = "limit of-file is exceeded: 2 of 1 in use"
    for number in range(2):
        for claim in claims:
            followed.cluster.set_claim(watched(claim), 2 * number + 1)
        for _ in range(2):
            followed.updates.log_exceeded()
            assert followed.updates.limits_trouble == text
        assert caplog.messages == [text] * (number + 1)
        followed.cluster.remove_claim(claims[0].uid)
        followed.updates.log_exceeded()
        assert followed.updates.limits_trouble == ""


@given(st.lists(st.sampled_from(["delete", *[(how, most) for how in ("change", "list_anew") for most in (BAD, 1, 2)]])))
def test_config_map_that_is_there_leaves_what_was_read_last(steps: list[str | tuple[str, int]]) -> None:
    followed, last_read, is_there = Followed(), None, False
    for step in steps:
        if isinstance(step, str):
            followed.delete()
            is_there = False
        else:
            how, most = step
            getattr(followed, how)(most)
            last_read, is_there = last_read if most == BAD else most, True
        assert followed.most() == (last_read if is_there else None)
