import pytest

from scheduler.cli.progress import told_after


def test_what_takes_long_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with told_after("reading ...", delay_s=0) as timer:
        timer.join()
    assert capsys.readouterr() == ("", "reading ...\n")


def test_what_is_soon_done_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with told_after("reading ...", delay_s=3600) as timer:
        pass
    timer.join()
    assert capsys.readouterr() == ("", "")
