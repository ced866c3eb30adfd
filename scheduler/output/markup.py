"""HTML and SVG as trees, so that no text of the input is ever read as markup."""

from base64 import b64encode
from hashlib import sha256
from xml.etree.ElementTree import Element, tostring

import orjson

Child = Element | str


def element(tag: str, attributes: dict[str, str] | None = None, *children: Child) -> Element:
    """An element with its children in their order."""
    made = Element(tag, attributes or {})
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + child
        else:
            made.text = (made.text or "") + child
    return made


def table(header: list[str], rows: list[list[Child]], caption: str = "") -> Element:
    """A table whose first column names its rows."""
    head = element("tr", {}, *(element("th", {"scope": "col"}, text) for text in header))
    body = [_row(row) for row in rows]
    parts = [element("thead", {}, head), element("tbody", {}, *body)]
    return element("table", {}, *([element("caption", {}, caption)] if caption else []), *parts)


def _row(cells: list[Child]) -> Element:
    first, *others = cells
    return element("tr", {}, element("th", {"scope": "row"}, first), *(element("td", {}, cell) for cell in others))


def policy(*allowed: str) -> str:
    """A Content-Security-Policy that forbids all that is not named. allowed: such as `script-src 'self'`."""
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def allowances(style: str, script: str, *, connects: bool) -> list[str]:
    """What a page needs: this style and script, and no other. connects: also the server that it comes from."""
    found = [_allowed("style-src", style), *([_allowed("script-src", script)] if script else [])]
    return [*found, *(["connect-src 'self'"] if connects else [])]


def _allowed(directive: str, text: str) -> str:
    digest = b64encode(sha256(text.encode()).digest()).decode()
    return f"{directive} 'sha256-{digest}'"


def embedded(data: object) -> Element:
    """Data as JSON in the page, in which nothing can end the element."""
    text = orjson.dumps(data).decode().replace("<", "\\u003c")
    return element("script", {"type": "application/json", "id": "data"}, text)


def document(title: str, style: str, *body: Child, script: str = "", connects: bool = False) -> str:
    """A page that loads nothing and runs this script alone: its policy forbids all else.

    style: CSS. connects: the script may connect to the server of the page.
    """
    metas = [
        {"charset": "utf-8"},
        {"name": "viewport", "content": "width=device-width, initial-scale=1"},
        {"name": "color-scheme", "content": "light dark"},
        {"name": "referrer", "content": "no-referrer"},
        {
            "http-equiv": "Content-Security-Policy",
            "content": policy(*allowances(style, script, connects=connects)),
        },
    ]
    head = element(
        "head",
        {},
        *(element("meta", attributes) for attributes in metas),
        element("title", {}, title),
        element("style", {}, style),
    )
    scripts = [element("script", {}, script)] if script else []
    page = element("html", {"lang": "en"}, head, element("body", {}, *body, *scripts))
    return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html") + "\n"
