import pytest

import cel


@pytest.mark.parametrize(
    ("expression", "paths"),
    [
        ("true", set()),
        ("device.driver == 'x'", {("driver",)}),
        ("device.attributes['d'].a == 1", {("attributes", "d", "a")}),
        ("device.attributes.d['a'] == 1", {("attributes", "d", "a")}),
        ("device.?attributes[?'d'].?a.orValue(1) == 1", {("attributes", "d", "a")}),
        ("has(device.capacity['d'].m)", {("capacity", "d", "m")}),
        ("device.attributes['d'].a.b.c == 1", {("attributes", "d", "a")}),
        ("device.attributes['d'].size() == 1", {("attributes", "d")}),
        ("device.attributes[device.driver].a == 1", {("attributes",), ("driver",)}),
        ("device == device", {()}),
        ("device.attributes['d'].a == 1 && device.attributes['d'].size() == 1", {("attributes", "d")}),
        (
            "cel.bind(g, device.attributes['d'], g.a == 1 && g.b == 2)",
            {("attributes", "d", "a"), ("attributes", "d", "b")},
        ),
        ("cel.bind(g, device.driver + 'x', g == 'x')", {("driver",)}),
        ("cel.bind(device, 1, device == 1)", set()),
        ("[1].all(device, device == 1)", set()),
        ("['a'].all(x, device.attributes['d'][x] == 1)", {("attributes", "d")}),
        ("device.attributes['d'].l.exists(v, v == device.driver)", {("attributes", "d", "l"), ("driver",)}),
        ("[1].exists(x, .device.driver == 'x')", {("driver",)}),
    ],
)
def test_reads_are_the_constant_paths(expression: str, paths: set[tuple[str, ...]]) -> None:
    assert cel.compile(expression).reads.paths == paths


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("device.driver == 'x'", {(("driver",), "x")}),
        ("'x' != device.driver || device.driver == 'y'", {(("driver",), "x"), (("driver",), "y")}),
        ("device.driver in ['x', 'y']", {(("driver",), "x"), (("driver",), "y")}),
        ("device.attributes['d'].a == 'x'", {(("attributes", "d", "a"), "x")}),
        ("cel.bind(d, device.driver, d == 'x')", {(("driver",), "x")}),
        ("[1].exists(n, device.driver == 'x')", {(("driver",), "x")}),
        ("device.driver.startsWith('x')", set()),
        ("device.driver == 'x' + 'y'", set()),
        ("device.attributes['d'].a == 1", set()),
        ("'x' == 'y'", set()),
    ],
)
def test_reads_have_the_literal_texts_that_paths_are_compared_with(
    expression: str, texts: set[tuple[tuple[str, ...], str]]
) -> None:
    assert cel.compile(expression).reads.texts == texts
