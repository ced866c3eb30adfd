import pytest

from cel.errors import CompileError
from cel.syntax import ast
from cel.syntax.ast import Call, Expr, Ident, ListExpr, Literal, MapExpr, MessageExpr, Select
from cel.syntax.macros import MACROS
from cel.syntax.parser import MAX_NESTING, Syntax, parse

SYNTAX = Syntax(MACROS)


def written(node: Expr) -> str:
    """The tree with all its parentheses."""
    text = "loop"
    match node:
        case Literal():
            text = repr(node.value)
        case Ident():
            text = node.name
        case Select():
            text = f"{written(node.operand)}.{node.field}"
        case Call(function=ast.AND | ast.OR as function):
            text = f"({f' {function[1:-1]} '.join(map(written, node.arguments))})"
        case Call():
            target = "" if node.target is None else f"{written(node.target)}."
            text = f"{target}{node.function}({', '.join(map(written, node.arguments))})"
        case ListExpr():
            text = f"[{', '.join(map(written, node.elements))}]"
        case MapExpr():
            text = f"{{{', '.join(f'{written(entry.key)}: {written(entry.value)}' for entry in node.entries)}}}"
        case MessageExpr():
            text = f"{node.type_name}{{{', '.join(f'{field.name}: {written(field.value)}' for field in node.fields)}}}"
    return text


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("a + b * c - d", "_-_(_+_(a, _*_(b, c)), d)"),
        ("a * b / c % d", "_%_(_/_(_*_(a, b), c), d)"),
        ("a < b == c in d", "@in(_==_(_<_(a, b), c), d)"),
        ("a && b || c && d", "((a && b) || (c && d))"),
        ("a || b || c || d", "((a || b) || (c || d))"),
        ("a && b && c", "((a && b) && c)"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("a || b ? c && d : e", "_?_:_((a || b), (c && d), e)"),
        ("-1", "-1"),
        ("- 1.5", "-1.5"),
        ("-a", "-_(a)"),
        ("--a", "a"),
        ("---a", "-_(a)"),
        ("--1", "1"),
        ("!!!a", "!_(a)"),
        ("!-1", "!_(-1)"),
        ("a - -1", "_-_(a, -1)"),
        ("-1.max()", "-1.max()"),
        ("a.b.c", "a.b.c"),
        (".a.b", ".a.b"),
        ("a.b(c)", "a.b(c)"),
        ("a(b)(c)", None),
        ("a[b].c[0]", "_[_](_[_](a, b).c, 0)"),
        ("a.?b", "_?._(a, 'b')"),
        ("a[?b]", "_[?_](a, b)"),
        ("a.`b c`", "a.b c"),
        ("a.for", "a.for"),
        ("a.true", None),
        ("[a, b,]", "[a, b]"),
        ("[,]", "[]"),
        ("{a: b,}", "{a: b}"),
        ("a.b{c: d}", "a.b{c: d}"),
        (".a{}", ".a{}"),
        ("a.b(c).d{}", None),
        ("f(a,)", None),
        ("a b", None),
        ("(a", None),
        ("a ? b", None),
        ("a.", None),
        ("1.5.6", None),
    ],
)
def test_source_has_this_tree(source: str, tree: str | None) -> None:
    if tree is None:
        with pytest.raises(CompileError):
            parse(source, SYNTAX)
    else:
        assert written(parse(source, SYNTAX)) == tree


def test_entries_with_a_question_mark_are_marked() -> None:
    items = parse("[a, ?b]", SYNTAX)
    entries = parse("{?a: b, c: d}", SYNTAX)
    assert isinstance(items, ListExpr)
    assert items.optionals == {1}
    assert isinstance(entries, MapExpr)
    assert [entry.is_optional for entry in entries.entries] == [True, False]


@pytest.mark.parametrize(
    ("open_", "close"), [("(", ")"), ("[", "]"), ("{1:", "}"), ("f(", ")"), ("!(", ")"), ("a[", "]"), ("-(", ")")]
)
def test_nesting_is_allowed_up_to_the_limit(open_: str, close: str) -> None:
    deepest = MAX_NESTING - 1
    parse(f"{open_ * deepest}a{close * deepest}", SYNTAX)
    with pytest.raises(CompileError, match="recursion"):
        parse(f"{open_ * MAX_NESTING}a{close * MAX_NESTING}", SYNTAX)


@pytest.mark.parametrize("link", [" + a", " * a", " < a", ".b", "[0]", ".f()"])
def test_chains_are_limited_too(link: str) -> None:
    parse(f"a{link * MAX_NESTING}", SYNTAX)
    with pytest.raises(CompileError, match="recursion"):
        parse(f"a{link * (MAX_NESTING + 1)}", SYNTAX)


def test_nested_right_sides_count_several_times() -> None:
    parse(f"{'1 + 2 * (' * 83}1{')' * 83}", SYNTAX)
    with pytest.raises(CompileError, match="recursion"):
        parse(f"{'1 + 2 * (' * 84}1{')' * 84}", SYNTAX)


@pytest.mark.parametrize("link", [" && a", " || a"])
def test_chains_of_logic_are_not_limited(link: str) -> None:
    parse(f"a{link * 2000}", SYNTAX)


def test_any_number_of_signs_is_one_step() -> None:
    assert written(parse("!" * 5001 + "a", SYNTAX)) == "!_(a)"


def test_escaped_identifiers_came_with_1_37() -> None:
    with pytest.raises(CompileError, match="unsupported syntax"):
        parse("a.`b`", Syntax(MACROS, has_escaped_identifiers=False))
