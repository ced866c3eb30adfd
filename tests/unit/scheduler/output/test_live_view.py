"""The page's data: what has changed, and no more, for readers who come at any time."""

import asyncio
import json
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest

from allocator import status as largest
from allocator import status as statuses
from allocator.allocate import allocate
from allocator.status import Membership, largest_claim
from scheduler.output import live_view
from scheduler.output.live_view import GONE_S, IN_QUEUE, NOT_YET, LiveView
from scheduler.output.status_report import ClassRoom, class_columns, largest_claim_text, tally_columns
from scheduler.output.time_line import MOST, WAITS, DecisionLog
from scheduler.status import by_class, by_driver, tallies
from tests.builders import CLASS, DRIVER, a_class, a_pod, a_slice, on_node, watched
from tests.unit.scheduler.extender.clusters import add_node
from tests.unit.scheduler.output.shown import Program, State, a_holder, answer_of, applied, devices_of, rows_of


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pools whose status was worked out."""
    found: list[str] = []

    def status(snapshot: Any, pool_id: Any) -> Any:
        found.append(pool_id.pool)
        return statuses.pool_status(snapshot, pool_id)

    monkeypatch.setattr(live_view, "pool_status", status)
    monkeypatch.setattr(live_view, "REST_S", 0)
    return found


def refreshed(view: LiveView, state: State | None = None, version: int = 0) -> State:
    asyncio.run(view.refresh())
    return applied({} if state is None else state, view.since(version))


def test_devices_are_shown_with_who_holds_them() -> None:
    program = Program(1, 2)
    program.cluster.set_claim(watched(a_holder("a", "gpu-1", pool="node-1"), users=[a_pod(name="p")]), 1)
    state = refreshed(program.view())
    assert devices_of(state) == {
        f"{DRIVER}/node-0/gpu-0": ["free", "-"],
        f"{DRIVER}/node-1/gpu-0": ["free", "-"],
        f"{DRIVER}/node-1/gpu-1": ["allocated", "default/a"],
    }
    assert state["devices", f"{DRIVER}/node-1"][1][4] == "pod/p"
    assert answer_of(state)[0] == "2 of 3 devices are free; 1 allocated."


def test_what_has_not_changed_is_neither_worked_out_nor_sent_again(asked: list[str]) -> None:
    program = Program(1, 1, 1)
    view = program.view()
    state = refreshed(view)
    assert sorted(asked) == ["node-0", "node-1", "node-2"]
    version = view.version
    assert refreshed(view, {}, version) == {}
    assert (view.version, len(asked)) == (version, 3)
    program.cluster.set_claim(watched(a_holder("a", "gpu-0", pool="node-1")), 1)
    changed = refreshed(view, {}, version)
    expected = {("devices", f"{DRIVER}/node-1"), ("answer", ""), ("drivers", DRIVER), ("classes", CLASS)}
    assert changed.keys() == expected
    assert asked[3:] == ["node-1"]
    assert devices_of({**state, **changed})[f"{DRIVER}/node-1/gpu-0"] == ["allocated", "default/a"]


def test_a_new_user_of_a_claim_is_a_change(asked: list[str]) -> None:
    program = Program(1)
    claim = a_holder("a", "gpu-0")
    program.cluster.set_claim(watched(claim), 1)
    view = program.view()
    assert refreshed(view)["devices", f"{DRIVER}/node-0"][0][4] == "-"
    program.cluster.set_claim(watched(claim, users=[a_pod(name="p")]), 2)
    assert refreshed(view)["devices", f"{DRIVER}/node-0"][0][4] == "pod/p"
    assert len(asked) == 2


def test_a_pool_that_is_gone_is_taken_out() -> None:
    program = Program(1, 1)
    view = program.view()
    state = refreshed(view)
    program.cluster.remove_slice("node-1")
    assert devices_of(refreshed(view, state, view.version)).keys() == {f"{DRIVER}/node-0/gpu-0"}
    assert answer_of(state)[0] == "1 of 1 device is free."


def test_pools_with_problems_are_listed_while_they_have_them() -> None:
    program = Program(1)
    view = program.view()
    program.cluster.set_slice(a_slice("gpu-0", name="other", pool="pool-a", reach=on_node("node-0"), slice_count=2))
    state = refreshed(view)
    assert state["problems", f"{DRIVER}/pool-a"] == [
        [f"{DRIVER}/pool-a", "incomplete: 1 of 2 slices of generation 1 exist"]
    ]
    program.cluster.set_slice(a_slice("gpu-0", name="other", pool="pool-a", reach=on_node("node-0"), slice_count=1))
    assert refreshed(view)["problems", f"{DRIVER}/pool-a"] == []


def test_queue_and_decisions_have_their_reasons() -> None:
    program = Program(1)
    program.waiting = [
        {"pod": "ml/a", "queue": "unschedulable", "priority": 5, "attempts": 2, "gate": "", "message": "0/1 nodes"},
        {"pod": "ml/b", "queue": "gated", "gate": "waits for its claim", "message": ""},
        {"pod": "ml/c", "queue": "refused"},
    ]
    allocation = a_holder("a", "gpu-0", pool="pool-a").allocation
    assert allocation
    program.decisions.placed(0.5, a_pod(name="p"), "node-0", [allocation])
    program.decisions.answered(1.0, "ml/a", "Unschedulable", "0/1 nodes are available")
    program.troubles = ["caches: not filled"]
    state = refreshed(program.view())
    assert rows_of(state, "queue") == [
        ["ml/a", "unschedulable", "5", "2", "0/1 nodes"],
        ["ml/b", "gated", "-", "-", "waits for its claim"],
        ["ml/c", "refused", "-", "-", "-"],
    ]
    assert rows_of(state, "decisions") == [
        ["1970-01-01T00:00:01.000Z", "ml/a", "Unschedulable", "-", WAITS],
        ["1970-01-01T00:00:00.500Z", "default/p", "placed", "node-0", f"{DRIVER}/pool-a/gpu-0"],
    ]
    assert answer_of(state)[1:] == ["3 pods wait; 2 decisions since the program started.", "caches: not filled"]


def test_groups_that_wait_have_their_reason_or_that_of_their_pods() -> None:
    program = Program(1)
    common: dict[str, object] = {"source": "label", "pods": 2, "waiting": 2, "minimum": 3}
    program.groups = [
        {"group": "ml/b", **common, "reason": ""},
        {"group": "ml/a", **common, "reason": "waiting for 1 of 3 pods of group ml/a"},
    ]
    view = program.view()
    state = refreshed(view)
    assert rows_of(state, "groups") == [
        ["ml/a", "label", "2", "2", "3", "waiting for 1 of 3 pods of group ml/a"],
        ["ml/b", "label", "2", "2", "3", IN_QUEUE],
    ]
    program.groups = []
    assert rows_of(refreshed(view, state, view.version), "groups") == []


def test_the_log_and_the_queue_that_is_shown_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "MOST_WAITING", 3)
    log = DecisionLog()
    for number in range(MOST + 5):
        log.answered(0.0, f"ml/{number}", "placed", "")
    assert (log.number, len(list(log.kept()))) == (MOST + 5, MOST)
    assert next(log.kept())[1].pod == f"ml/{MOST + 4}"
    program = Program(1)
    program.waiting = [{"pod": f"ml/{number}"} for number in range(9)]
    state = refreshed(program.view())
    assert [row[0] for row in rows_of(state, "queue")] == ["ml/0", "ml/1", "ml/2"]
    assert answer_of(state)[1].startswith("9 pods wait")


def test_rows_that_are_gone_are_forgotten_once_every_reader_has_seen_it() -> None:
    now = [0.0]
    program = Program(1)
    view = LiveView(program.source, program.time_line(), lambda: now[0])
    refreshed(view)
    sizes = []
    for number in range(20):
        for _ in range(MOST):
            program.decisions.answered(0.0, f"pod-{number}", "Unschedulable", "no room")
        now[0] += GONE_S / 2
        refreshed(view)
        sizes.append(len(view._groups))
    assert sizes[-1] == sizes[4] < 5 * MOST


def test_what_steers_a_reader_is_written_out() -> None:
    program = Program(1)
    program.waiting = [{"pod": "ml/\u202e\x00", "message": "</script>"}]
    state = refreshed(program.view())
    assert rows_of(state, "queue") == [["ml/\\u202e\\x00", "-", "-", "-", "</script>"]]


@pytest.mark.parametrize("seed", range(20))
def test_readers_who_come_at_any_time_see_what_a_new_reader_sees(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - no secret
    program = Program(2, 2, 2)
    view = program.view()
    readers: list[tuple[State, int]] = [({}, 0)]
    for step in range(30):
        number = random.randrange(4)
        match random.randrange(5):
            case 0:
                claim = a_holder(f"c-{number}", "gpu-0", pool=f"node-{random.randrange(4)}")
                program.cluster.set_claim(watched(claim), step + 1)
            case 1:
                if found := program.cluster.claims.get("default", f"c-{number}"):
                    program.cluster.remove_claim(found.claim.uid)
            case 2:
                add_node(program.cluster, f"node-{number}", *(f"gpu-{one}" for one in range(1 + random.randrange(2))))
            case 3:
                driver = random.choice([DRIVER, "other.example"])
                selector = f'device.driver == "{driver}"' if random.random() < 0.8 else "device.driver =="
                program.cluster.set_class(a_class(f"class-{number}", selector))
            case _:
                program.waiting = [{"pod": f"ml/{one}"} for one in range(random.randrange(3))]
        asyncio.run(view.refresh())
        at = random.randrange(len(readers))
        state, seen = readers[at]
        readers[at] = applied(state, view.since(seen)), view.version
        if random.random() < 0.2:
            readers.append((applied({}, view.since(0)), view.version))
    fresh = {key: rows for key, rows in refreshed(program.view()).items() if rows}
    assert tallied(program, "drivers") == rows_of(fresh, "drivers")
    assert tallied(program, "classes") == rows_of(fresh, "classes")
    for state, seen in readers:
        shown = {key: rows for key, rows in applied(state, view.since(seen)).items() if rows}
        assert shown == fresh


def tallied(program: Program, table: str) -> list[list[str]]:
    """The rows of the table, counted at once."""
    snapshot = program.cluster.fleet.current
    classes = sorted(snapshot.classes.values(), key=lambda one: one.name)
    by = by_class([Membership(one, snapshot.features.environment) for one in classes])
    known = [one.name for one in classes] if table == "classes" else ()
    found = tallies(statuses.pool_statuses(snapshot), by if table == "classes" else by_driver, known)
    if table == "drivers":
        return [list(row) for row in tally_columns("", found).rows]
    cluster = program.cluster
    rooms = {one.name: ClassRoom(largest_claim(cluster.fleet, one.name), cluster.name_of) for one in classes}
    texts = {name: largest_claim_text(room) for name, room in rooms.items()}
    return [list(row) for row in class_columns(found, texts).rows]


def test_drivers_and_classes_are_counted_with_their_claims() -> None:
    program = Program(1, 2)
    program.cluster.set_class(a_class("other", 'device.driver == "other.example"'))
    shared = a_holder("a", "gpu-0", pool="node-0")
    program.cluster.set_claim(watched(shared), 1)
    view = program.view()
    state = refreshed(view)
    header = tally_columns("CLASS", ()).header
    assert header[:5] == ["CLASS", "DEVICES", "FREE", "ALLOCATED", "SHARED"]
    assert rows_of(state, "drivers") == [[DRIVER, "3", "2", "1", "0", "0", "0", "0", "1"]]
    assert rows_of(state, "classes") == [
        [CLASS, "3", "2", "1", "0", "0", "0", "0", "1", "2 devices, on node-1"],
        ["other", *"00000000", "none fits"],
    ]
    program.cluster.remove_claim(shared.uid)
    program.cluster.remove_class("other")
    refreshed(view, state)
    assert rows_of(state, "classes") == [[CLASS, "3", "3", "0", "0", "0", "0", "0", "0", "2 devices, on node-1"]]


def largest_of(state: State) -> dict[str, str]:
    return {row[0]: row[-1] for row in rows_of(state, "classes")}


def test_the_largest_claim_follows_devices_nodes_and_classes() -> None:
    program = Program(1, 2)
    view = program.view()
    state = refreshed(view)
    assert largest_of(state) == {CLASS: "2 devices, on node-1"}
    held = a_holder("a", "gpu-1", pool="node-1")
    program.cluster.set_claim(watched(held), 1)
    assert largest_of(refreshed(view, state)) == {CLASS: "1 device, on node-0, node-1"}
    add_node(program.cluster, "node-2", "gpu-0", "gpu-1", "gpu-2")
    assert largest_of(refreshed(view, state)) == {CLASS: "3 devices, on node-2"}
    program.cluster.remove_node("node-2")
    program.cluster.remove_claim(held.uid)
    program.cluster.set_class(a_class("other", 'device.driver == "other.example"'))
    assert largest_of(refreshed(view, state)) == {CLASS: "2 devices, on node-1", "other": "none fits"}
    program.cluster.set_class(a_class("other", f'device.driver == "{DRIVER}"'))
    program.cluster.set_class(a_class(CLASS, "device.driver =="))
    found = largest_of(refreshed(view, state))
    assert found["other"] == "2 devices, on node-1"
    assert found[CLASS].startswith("unknown: ")


def test_nodes_that_have_not_changed_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def asked_for(snapshot: Any, node: Any, claims: Any, **more: Any) -> Any:
        asked.append(node.name)
        return allocate(snapshot, node, claims, **more)

    monkeypatch.setattr(largest, "allocate", asked_for)
    program = Program(4, 4, 4)
    view = program.view()
    refreshed(view)
    assert set(asked) == {"node-0"}  # the others are like it
    asked.clear()
    refreshed(view)
    assert asked == []
    program.cluster.set_claim(watched(a_holder("a", "gpu-1", pool="node-1")), 1)
    assert largest_of(refreshed(view)) == {CLASS: "4 devices, on node-0, node-2"}
    assert set(asked) == {"node-1"}


def test_a_node_that_goes_while_the_largest_claim_is_looked_for_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "REFRESH_S", 0)
    seconds = count()
    program = Program(2, 3)
    view = LiveView(program.source, program.time_line(), lambda: float(next(seconds)))  # it rests after each step

    async def look() -> State:
        reading = asyncio.create_task(view.refresh())
        state: State = {}
        while largest_of(state) != {CLASS: NOT_YET}:
            await view.changed(view.version)
            state = applied({}, view.since(0))
        program.cluster.remove_node("node-1")
        await reading
        return applied({}, view.since(0))

    assert largest_of(asyncio.run(look())) == {CLASS: "2 devices, on node-0"}


def test_devices_are_not_counted_before_all_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "POOLS_AT_ONCE", 1)
    monkeypatch.setattr(live_view, "REFRESH_S", 0)
    seconds = count()
    program = Program(1, 1)
    view = LiveView(program.source, program.time_line(), lambda: float(next(seconds)))  # it rests after each pool

    async def first() -> State:
        reading = asyncio.create_task(view.refresh())
        await view.changed(0)
        state = applied({}, view.since(0))
        await reading
        return state

    state = asyncio.run(first())
    assert answer_of(state)[0] == "The devices are being read."
    assert rows_of(state, "drivers") == []
    assert answer_of(applied({}, view.since(0)))[0] == "2 of 2 devices are free."


def test_a_change_in_the_middle_of_a_look_reaches_a_reader_who_came_before_it() -> None:
    """What is being worked out is not shown half: a reader gets it with the next version."""
    program = Program(1)

    async def look() -> State:
        view = program.view()
        await view.refresh()
        state, seen = applied({}, view.since(0)), view.version
        program.cluster.set_claim(watched(a_holder("a", "gpu-0")), 1)
        waiting = asyncio.create_task(view.changed(seen))
        await asyncio.sleep(0)
        assert not waiting.done()
        await view.refresh()
        await waiting
        return applied(state, view.since(seen))

    assert devices_of(asyncio.run(look()))[f"{DRIVER}/node-0/gpu-0"] == ["allocated", "default/a"]


def test_the_pause_between_two_looks_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, each look would begin with a rest as long as the pause."""
    now, rests = [0.0], []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", rest)
    program = Program(1, 1)
    view = LiveView(program.source, program.time_line(), lambda: now[0])
    refreshed(view)
    now[0] += 1.0
    refreshed(view)
    assert rests == []


def test_the_reason_of_a_pod_that_waits_stands_once() -> None:
    program = Program(1)
    program.waiting = [{"pod": "default/a", "uid": "1", "queue": "unschedulable", "message": "no node has a device"}]
    for pod in ("default/a", "default/b"):
        program.decisions.answered(0.0, pod, "Unschedulable", "no node has a device")
    state = refreshed(program.view())
    assert {row[1]: row[4] for row in rows_of(state, "decisions")} == {
        "default/a": WAITS,
        "default/b": "no node has a device",
    }
    assert [row[-1] for row in rows_of(state, "queue")] == ["no node has a device"]


def test_closed_nodes_are_shown_until_they_are_open() -> None:
    program = Program(1, 1)
    node = program.cluster.node("node-1")
    assert node
    program.cluster.set_node(replace(node, unschedulable=True))
    view = program.view()
    assert rows_of(refreshed(view), "closed") == [["node-1", "cordoned"]]
    program.cluster.set_node(node)
    assert rows_of(refreshed(view), "closed") == []


def test_a_new_reader_gets_devices_last() -> None:
    program = Program(1, 1, 1)
    view = program.view()
    refreshed(view)
    program.troubles = ["caches: not filled"]
    refreshed(view)
    tables = [json.loads(one)[0] for one in view.since(0)]
    assert tables[-3:] == ["devices"] * 3
    assert "answer" in tables[:-3]
