"""`format.<name>()` and `validate` in expressions."""

import pytest

from tests.unit.cel.ext.expressions import costs_of, failure_of, holds, refusal_of


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("dns1123Label", ["a", "a-1", "9"], ["", "A", "a.b", "-a", "a" * 64]),
        ("dns1123Subdomain", ["a.b", "a"], ["a..b", "a_b", "a." * 130 + "a"]),
        ("dns1035Label", ["a1"], ["1a", "a-"]),
        ("qualifiedName", ["a/B_c", "B.c"], ["a/", "/b", "A_/b", "a/b/c", "b" * 64]),
        ("dns1123LabelPrefix", ["a-", "ab-", "aB-"], ["-", "A.b-", "é-"]),
        ("dns1123SubdomainPrefix", ["a.b-"], ["a."]),
        ("dns1035LabelPrefix", ["a-"], ["1b-", "1bc-"]),
        ("labelValue", ["", "a_B.c"], ["a b", "-", "b" * 64]),
        ("uri", ["https://a", "/x"], ["x", "http://a b"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"], ["123e4567"]),
        ("byte", ["YQ==", "YWI=", "YWJj"], ["", "YQ", "YQ=", "Y!=="]),
        ("date", ["2024-02-29", "0000-02-29"], ["2023-02-29", "2024-2-09", "2024-13-01"]),
        ("datetime", ["2024-02-29T23:59:59Z", "2024-02-29t00:00:00.5+23:59"], ["2024-02-29", "T", "2024-02-29T24:00Z"]),
    ],
)  # fmt: skip
def test_format_validates(name: str, right: list[str], wrong: list[str]) -> None:
    for text in right:
        assert holds(f'!format.{name}().validate("{text}").hasValue()'), text
    for text in wrong:
        assert holds(f'format.named("{name}").value().validate("{text}").value().size() > 0'), text


def test_problems_are_reported_in_the_words_of_kubernetes() -> None:
    assert holds('format.dns1123Label().validate("a.b").value() == ["must not contain dots"]')
    assert holds('format.labelValue().validate("' + "a" * 64 + '").value() == ["must be no more than 63 bytes"]')
    assert holds('format.qualifiedName().validate("/").value()[0] == "prefix part must be non-empty"')
    assert holds('format.uri().validate("x").value() == ["parse \\"x\\": invalid URI for request"]')
    assert holds('format.date().validate("x").value() == ["invalid date"]')


@pytest.mark.parametrize(
    ("host", "fault"),
    [
        ("a", "unable to parse IP"),
        ("%25eth0", "missing IPv6 address"),
        ("fe80::%25", "zone must be a non-empty string"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.04", "IPv4 field has octet with leading zero"),
        ("1.2.3.1111", "IPv4 field has value >255"),
        ("1..2", 'IPv4 field must have at least one digit (at ".2")'),
        (".1", 'IPv4 field must have at least one digit (at ".1")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        ("v1.a", 'unexpected character (at "v1.a")'),
        ("::12345", 'each group must have 4 or less digits (at "12345")'),
        (":::", 'each colon-separated field must have at least one digit (at ":")'),
        ("1:1.2.3.4", 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")'),
        (
            "::1:2:3:4:5:6:7:1.2.3.4",
            'too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")',
        ),
        ("::1.2.3.256", "IPv4 field has value >255"),
        ("1::g", 'each colon-separated field must have at least one digit (at "g")'),
        ("1g::", 'unexpected character, want colon (at "g::")'),
        ("1:", 'colon must be followed by more characters (at ":")'),
        ("1::2::", 'multiple :: in address (at ":")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3", "address string too short"),
        ("1:2:3:4:5:6:7:8::", "the :: must expand to at least one field of zeros"),
        ("::%FF", 'each colon-separated field must have at least one digit (at "\\\\xff")'),
    ],
)
def test_a_uri_is_shown_why_its_host_is_no_address(host: str, fault: str) -> None:
    assert holds(f"format.uri().validate('http://[{host}]/').value()[0].endsWith('): {fault}')")


@pytest.mark.parametrize("host", ["::", "1::", "::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7::", "fe80::1%25eth0"])
def test_hosts_that_are_addresses(host: str) -> None:
    assert holds(f"!format.uri().validate('http://[{host}]/').hasValue()")


def test_an_address_of_version_4_needs_no_brackets() -> None:
    assert holds('format.uri().validate("http://[1.2.3.4]").value()[0].endsWith(": invalid IP-literal")')


def test_formats_are_equal_by_name() -> None:
    assert holds('format.uuid() == format.named("uuid").value() && format.uuid() != format.byte()')
    assert holds('!format.named("no such").hasValue()')
    assert failure_of('dyn(format.uuid()) == "uuid"') == "no such overload"
    assert "unhashable type cel.Format" in failure_of("{dyn(format.uuid()): 1} == {} || true")


def test_validation_costs_by_the_size_of_a_pattern() -> None:
    assert costs_of('format.dns1123Label().validate("a").hasValue()') == (10, 34)
    assert costs_of('format.uri().validate("").hasValue()') == (278, 2)


def test_authorization_compiles_on_unknown_values_and_fails() -> None:
    assert "no such overload" in failure_of('dyn(1).group("").resource("pods").check("get").allowed()')
    assert "no such overload" in failure_of('dyn(1).fieldSelector("a=b").check("get").allowed()')
    assert holds('dyn(1).path("/x").check("get").allowed() || true')
    assert costs_of('dyn(1).check("get").allowed() || true') == (350_001, 350_002)
    assert "undeclared reference" in refusal_of('authorizer.path("/x").check("get").allowed()')
