"""What follows from the server's own documents."""

import asyncio
from typing import cast

import orjson
import pytest

from allocator.gates import DEVICE_TAINT_RULES, PARTITIONABLE_DEVICES
from scheduler.client import api_resources
from scheduler.client.api_resources import COMPOSITE_POD_GROUPS, POD_GROUPS
from scheduler.client.connection import Connection
from scheduler.client.discovery import NotServed, Served, ServedSince, discover, dump, nearest_release, served
from scheduler.client.errors import ApiError, ApiStatus

VERSION_1_36 = {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
NEEDED = ("resourceclaims", "resourceclaims/status", "resourceslices", "deviceclasses")


def a_document(*plurals: str) -> dict[str, object]:
    return {"resources": [{"name": plural} for plural in plurals]}


def test_best_version_is_chosen() -> None:
    documents = {name: a_document(*NEEDED) for name in ("v1beta1", "v1beta2", "v1")}
    found = served(VERSION_1_36, documents)
    assert found.version == "v1"
    assert found.claims.path() == "/apis/resource.k8s.io/v1/resourceclaims"


def test_version_without_claims_is_passed_over() -> None:
    documents = {"v1beta2": a_document("devicetaintrules"), "v1beta1": a_document(*NEEDED)}
    found = served(VERSION_1_36, documents)
    assert found.version == "v1beta1"
    assert found.taint_rules is not None
    assert found.taint_rules.version == "v1beta2"


def test_kinds_of_groups_are_used_in_the_newest_version_that_has_each() -> None:
    documents = {"v1": a_document(*NEEDED)}
    both = {"v1beta1": a_document("podgroups"), "v1alpha3": a_document("podgroups", "compositepodgroups")}
    found = served(VERSION_1_36, documents, both)
    resources = [found.resource(one) for one in (POD_GROUPS, COMPOSITE_POD_GROUPS)]
    assert [one and one.version for one in resources] == ["v1beta1", "v1alpha3"]
    older = served(VERSION_1_36, documents, {"v1": a_document("priorityclasses"), "v1alpha2": a_document("podgroups")})
    resources = [older.resource(one) for one in (POD_GROUPS, COMPOSITE_POD_GROUPS)]
    assert [one and one.version for one in resources] == ["v1alpha2", None]


def test_server_without_the_group_is_refused_and_reported_what_to_do() -> None:
    with pytest.raises(NotServed, match=r"serves resource\.k8s\.io not at all.*Kubernetes 1\.34 or later, or enable"):
        served(VERSION_1_36, {})
    with pytest.raises(NotServed, match="only in v1alpha3; one of v1, v1beta2, v1beta1 is needed"):
        served(VERSION_1_36, {"v1alpha3": a_document("devicetaintrules")})
    emulating = {**VERSION_1_36, "emulationMajor": "1", "emulationMinor": "33"}
    with pytest.raises(NotServed, match=r"^Kubernetes v1\.36\.3, emulating 1\.33 serves resource\.k8s\.io not at all"):
        served(emulating, {})


@pytest.mark.parametrize(
    ("minor", "release"),
    [("36", "1.36"), ("34+", "1.34"), ("31", "1.34"), ("38", "1.38"), ("99", "1.38"), ("", "1.38")],
)
def test_release_is_the_nearest_known(minor: str, release: str) -> None:
    assert nearest_release({"major": "1", "minor": minor}) == release


def test_a_server_that_emulates_a_release_is_treated_as_that_one() -> None:
    version = {**VERSION_1_36, "emulationMajor": "1", "emulationMinor": "35"}  # as kube-apiserver 1.36.3 answers
    found = served(version, {"v1": a_document(*NEEDED)})
    assert (found.release, found.release_text) == ("1.35", "Kubernetes v1.36.3, emulating 1.35")
    itself = served({**VERSION_1_36, "emulationMajor": "1", "emulationMinor": "36"}, {"v1": a_document(*NEEDED)})
    assert (itself.release, itself.release_text) == ("1.36", "Kubernetes v1.36.3")
    older = served({**VERSION_1_36, "emulationMajor": "1", "emulationMinor": "33"}, {"v1": a_document(*NEEDED)})
    assert older.release_text == ("Kubernetes v1.36.3, emulating 1.33, treated as 1.34, the nearest release known here")


def test_line_about_the_server_names_the_nearest_release_only_where_it_is_another() -> None:
    rules = served(VERSION_1_36, {"v1": a_document(*NEEDED, "devicetaintrules")})
    assert str(rules) == "Kubernetes v1.36.3; resource.k8s.io/v1; DeviceTaintRules: resource.k8s.io/v1"
    older = Served("v1.32.1", "1.34", "v1beta1", None)
    assert str(older) == (
        "Kubernetes v1.32.1, treated as 1.34, the nearest release known here; resource.k8s.io/v1beta1; "
        "DeviceTaintRules: not served"
    )


def test_line_about_a_later_server_names_the_newest_release() -> None:
    later = served({"major": "1", "minor": "39", "gitVersion": "v1.39.0"}, {"v1": a_document(*NEEDED)})
    assert later.release_text == "Kubernetes v1.39.0, treated as 1.38, the nearest release known here"
    beta = served({"major": "1", "minor": "38+", "gitVersion": "v1.38.0-beta.0"}, {"v1": a_document(*NEEDED)})
    assert (beta.release, beta.release_text) == ("1.38", "Kubernetes v1.38.0-beta.0")


def test_a_locked_gate_stays_on_where_rules_are_not_served() -> None:
    beta = served({"major": "1", "minor": "38", "gitVersion": "v1.38.0"}, {"v1": a_document(*NEEDED)})
    assert beta.taint_rules is None
    assert beta.features({}).has(DEVICE_TAINT_RULES)


def test_rules_count_where_they_are_served_and_overrides_have_the_last_word() -> None:
    with_rules = served(VERSION_1_36, {"v1": a_document(*NEEDED), "v1beta2": a_document("devicetaintrules")})
    without = served(VERSION_1_36, {"v1": a_document(*NEEDED)})
    assert with_rules.features({}).has(DEVICE_TAINT_RULES)
    assert not with_rules.features({DEVICE_TAINT_RULES: False}).has(DEVICE_TAINT_RULES)
    assert not without.features({}).has(DEVICE_TAINT_RULES)
    assert not without.features({PARTITIONABLE_DEVICES: False}).has(PARTITIONABLE_DEVICES)


@pytest.mark.parametrize("minor", ["34", "35"])
def test_rules_do_not_count_where_the_release_has_taints_off(minor: str) -> None:
    documents = {"v1": a_document(*NEEDED), "v1alpha3": a_document("devicetaintrules")}
    found = served({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}, documents)
    assert not found.features({}).has(DEVICE_TAINT_RULES)


def test_version_of_which_the_server_lists_nothing_is_none() -> None:
    with pytest.raises(NotServed, match="serves resource"):
        served(VERSION_1_36, {"v1": {}})


class Documents:
    """A server that has these documents."""

    def __init__(self, documents: dict[str, dict[str, object]]) -> None:
        self._documents = documents

    async def request(self, method: str, path: str, **_: object) -> dict[str, object]:
        if path not in self._documents:
            raise ApiError(f"{method} {path}", 404, ApiStatus("NotFound", "no"))
        return self._documents[path]


def test_versions_are_those_of_the_group() -> None:
    documents: dict[str, dict[str, object]] = {
        "/version": {**VERSION_1_36},
        "/apis/resource.k8s.io": {"versions": [{"version": "v1"}, {"version": "v1beta2"}]},
        "/apis/resource.k8s.io/v1": a_document(*NEEDED),
        "/apis/resource.k8s.io/v1beta2": a_document("devicetaintrules"),
    }
    found = asyncio.run(discover(cast(Connection, Documents(documents))))
    assert found.version == "v1"
    assert found.taint_rules is not None
    nothings: list[dict[str, object]] = [{}, {"versions": None}]
    for nothing in nothings:
        server = Documents({"/version": {**VERSION_1_36}, "/apis/resource.k8s.io": nothing})
        with pytest.raises(NotServed, match="not at all"):
            asyncio.run(discover(cast(Connection, server)))


def test_server_that_was_upgraded_is_told_until_it_is_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    before: dict[str, dict[str, object]] = {
        "/version": {**VERSION_1_36},
        "/apis/resource.k8s.io": {"versions": [{"version": "v1"}]},
        "/apis/resource.k8s.io/v1": a_document(*NEEDED),
    }
    upgraded: dict[str, dict[str, object]] = {
        **before,
        "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.2"},
        "/apis/resource.k8s.io/v1": a_document(*NEEDED, "devicetaintrules"),
    }
    documents = dict(before)
    connection = cast(Connection, Documents(documents))
    since = ServedSince(connection, asyncio.run(discover(connection)))

    def looked(now: dict[str, dict[str, object]]) -> str:
        documents.clear()
        documents.update(now)
        asyncio.run(since.look())
        return since.trouble

    assert looked({**before, "/version": {**VERSION_1_36, "gitVersion": "v1.36.4"}}) == ""
    told = (
        "the API server was upgraded or configured anew, restart to follow it: release 1.36, now 1.37, "
        "taint rules none, now devicetaintrules (resource.k8s.io/v1)"
    )
    assert [looked(upgraded), looked({}), looked(upgraded)] == [told] * 3
    assert looked({**before, "/apis/resource.k8s.io": {"versions": ["no object"]}}) == told
    assert looked(before) == ""
    assert caplog.messages == [told, "cannot read what the API server serves"]


class Lists:
    """An API server that knows a claim, no class, and no moment but now. asked: what was asked of it."""

    def __init__(self, forgets: int) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._forgets = forgets

    async def text(self, path: str, query: dict[str, str], _timeout_s: float) -> bytes:
        plural = path.rpartition("/")[2]
        self.asked.append((plural, query))
        if "resourceVersion" in query:
            raise ApiError(f"GET {path}", self._forgets, ApiStatus("Expired", ""))
        items = [{"metadata": {"name": "one"}}] if plural == "resourceclaims" else []
        return orjson.dumps({"metadata": {"resourceVersion": f"of-{plural}"}, "items": items})


@pytest.mark.parametrize("code", [410, 504])
def test_what_the_server_no_longer_knows_as_of_that_moment_is_read_as_it_is_now(code: int) -> None:
    server = Lists(code)
    at = served(VERSION_1_36, {"v1": a_document(*NEEDED)})

    async def read() -> list[tuple[str, int]]:
        found = dump(cast(Connection, server), at, [at.claims, api_resources.classes("v1")])
        return [(one.moment, len(one.objects)) async for one in found]

    assert asyncio.run(read()) == [("of-resourceclaims", 1), ("of-deviceclasses", 0)]
    exactly = {"limit": "500", "resourceVersion": "of-resourceclaims", "resourceVersionMatch": "Exact"}
    assert server.asked == [
        ("resourceclaims", {"limit": "500"}),
        ("deviceclasses", exactly),
        ("deviceclasses", {"limit": "500"}),
    ]


def test_list_that_times_out_is_not_asked_for_in_one_piece() -> None:
    class Slow:
        asked = 0

        async def text(self, path: str, *_: object) -> bytes:
            self.asked += 1
            raise ApiError(f"GET {path}", 504, ApiStatus("Timeout", ""))

    server, at = Slow(), served(VERSION_1_36, {"v1": a_document(*NEEDED)})

    async def read() -> None:
        await anext(dump(cast(Connection, server), at, [at.claims]))

    with pytest.raises(ApiError):
        asyncio.run(read())
    assert server.asked == 1
