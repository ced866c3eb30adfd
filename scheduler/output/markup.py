"""HTML and SVG as trees, so that no text of the input is ever read as markup."""

from xml.etree.ElementTree import Element, tostring

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


def document(title: str, style: str, *body: Child) -> str:
    """A page that loads nothing: its policy forbids it. style: CSS."""
    head = element(
        "head",
        {},
        element("meta", {"charset": "utf-8"}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element(
            "meta",
            {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"},
        ),
        element("title", {}, title),
        element("style", {}, style),
    )
    page = element("html", {"lang": "en"}, head, element("body", {}, *body))
    return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html") + "\n"
