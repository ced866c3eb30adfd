"""What tests ask of a page."""

import json
import re
from typing import Any


def data_of(page: str) -> Any:  # Any: JSON
    """The data that the script of the page draws."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def tables_of(page: str) -> dict[str, list[list[Any]]]:  # Any: a cell, or the rows of those that share the row
    """The rows of its tables, by name."""
    return {one["id"]: one["groups"][0][1] for one in data_of(page)["tables"]}


def answer_of(page: str) -> list[str]:
    """The answer in words: a sentence, and what adds to it."""
    found = re.findall(r'<p class="answer">(.*?)</p>(?:<ul class="points">(.*?)</ul>)?', page, re.DOTALL)
    ((first, points),) = found
    return [first, *re.findall(r"<li>(.*?)</li>", points)]
