"""The package as a program imports it, and the page that shows it."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import allocator

PAGE = Path(__file__).parents[3] / "docs" / "library.md"


def test_examples_print_what_the_page_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == PAGE.read_text().count("```python")
    names: dict[str, object] = {}
    for source, expected in blocks:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(source, names)  # noqa: S102 - the page's own
        assert printed.getvalue() == expected


def test_every_name_that_is_exported_is_there() -> None:
    assert sorted(allocator.__all__) == allocator.__all__
    assert all(hasattr(allocator, name) for name in allocator.__all__)
