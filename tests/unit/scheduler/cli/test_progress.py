import pytest

from scheduler.cli.printing import after_delay


def test_what_takes_long_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with after_delay("reading ...", delay_s=0) as timer:
        timer.join()
    assert capsys.readouterr() == ("", "reading ...\n")


def test_what_is_soon_done_is_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with after_delay("reading ...", delay_s=3600) as timer:
        pass
    timer.join()
    assert capsys.readouterr() == ("", "")
