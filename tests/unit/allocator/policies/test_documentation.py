"""docs/policies.md: what it shows works, and what it names is there."""

import re
from pathlib import Path

from allocator.policies import NAMES, policy_of

PAGE = (Path(__file__).parents[4] / "docs/policies.md").read_text()


def test_the_policy_of_ones_own_does_what_the_page_says() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, "docs/policies.md", "exec"), names)  # noqa: S102
    assert type(names["chosen"]).__name__ == "Chosen"
    assert isinstance(names["KeepCpu"], type)


def test_the_page_names_every_policy_and_no_other() -> None:
    assert tuple(re.findall(r"^\| `([a-z-]+)`", PAGE, re.MULTILINE)) == NAMES


def test_every_policy_that_the_page_calls_by_name_can_be_called_so() -> None:
    called = re.findall(r"(?:--policy |`)((?:least-fragmentation|topology):[\w./-]+)", PAGE)
    assert [policy_of(text).reads[0] for text in called] == ["gpu.example.com/board"] * 2
