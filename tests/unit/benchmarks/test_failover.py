"""The pure part of the failover benchmark: the table of its times."""

from benchmarks.failover.measurement import Ending, Times
from benchmarks.failover.run import table


def test_each_way_to_end_has_its_medians_and_limits() -> None:
    killed = [Times(Ending.KILL, leads_s, 0.5, 9.0, 100) for leads_s in (15.0, 16.0, 17.5)]
    lines = table([*killed, Times(Ending.TERM, 1.0, 0.25, 8.0, 100)]).splitlines()
    assert lines[2] == "| SIGKILL | end of the leader to the next one | 16.00 (15.00 to 17.50) | 18 |"
    assert lines[6] == "| SIGTERM | next leader to its first binding | 0.25 (0.25 to 0.25) | 3 |"
    assert lines[7] == "| SIGTERM | next leader to its last binding | 8.00 (8.00 to 8.00) |  |"


def test_one_way_alone_can_be_reported() -> None:
    assert len(table([Times(Ending.KILL, 15.0, 0.5, 9.0, 100)]).splitlines()) == 5
