"""`ip`, `cidr` and `url` in expressions."""

import pytest

from tests.unit.cel.ext.expressions import costs_of, failure_of, holds


@pytest.mark.parametrize(
    "expression",
    [
        'ip("10.0.0.1").family() == 4 && ip("::1").family() == 6',
        'isIP("1.2.3.4") && !isIP("1.2.3.04") && !isIP("fe80::1%eth0") && !isIP("::ffff:1.2.3.4") && !isIP("1.2.3")',
        'ip.isCanonical("::1") && !ip.isCanonical("0:0::1") && !ip.isCanonical("FE80::1")',
        'ip("0.0.0.0").isUnspecified() && ip("127.9.9.9").isLoopback() && ip("::1").isLoopback()',
        'ip("224.0.0.1").isLinkLocalMulticast()',
        'ip("ff02::1").isLinkLocalMulticast() && ip("ff12::1").isLinkLocalMulticast()',
        '!ip("224.0.1.1").isLinkLocalMulticast() && !ip("ff03::1").isLinkLocalMulticast()',
        'ip("169.254.1.1").isLinkLocalUnicast() && ip("fe80::1").isLinkLocalUnicast()',
        'ip("8.8.8.8").isGlobalUnicast()',
        '!ip("255.255.255.255").isGlobalUnicast() && !ip("ff05::1").isGlobalUnicast()',
        'string(ip("0:0:0:0:0:0:0:1")) == "::1" && ip("::1") == ip("0::1") && ip("1.2.3.4") != ip("::1")',
        "type(ip('::1')) == net.IP && type(cidr('::/0')) == net.CIDR",
        'cidr("10.1.2.3/16").prefixLength() == 16 && string(cidr("10.1.2.3/16").masked()) == "10.1.0.0/16"',
        'cidr("10.1.2.3/16").ip() == ip("10.1.2.3") && cidr("10.1.2.3/16") != cidr("10.1.0.0/16")',
        'cidr("10.0.0.0/8").containsIP("10.9.9.9") && !cidr("10.0.0.0/8").containsIP(ip("::1"))',
        'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8"))',
        'cidr("0.0.0.0/0").containsCIDR("10.0.0.0/8") && !cidr("::/0").containsCIDR("10.0.0.0/8")',
        'isCIDR("::/128") && !isCIDR("::/129")',
        '!isCIDR("10.0.0.0/08") && !isCIDR("10.0.0.0") && !isCIDR("::ffff:1.2.3.4/96")',
    ],
)
def test_addresses_and_networks(expression: str) -> None:
    assert holds(expression)


def test_addresses_are_equal_to_addresses_only() -> None:
    assert failure_of('dyn(ip("::1")) == "::1"') == "no such overload"
    assert failure_of('dyn(cidr("::/0")) == ip("::")') == "no such overload"
    assert holds('{dyn(ip("::1")): 1} == {dyn(ip("0::1")): 1} && {dyn(cidr("::/0")): 1} == {dyn(cidr("::/0")): 1}')


def test_malformed_addresses_are_errors() -> None:
    assert "parse error" in failure_of('ip("x").family()')
    assert "zone value is not allowed" in failure_of('ip("fe80::1%eth0").family()')
    assert "IPv4-mapped" in failure_of('ip("::ffff:1.2.3.4").family()')
    assert "parse error" in failure_of('cidr("10.0.0.0").prefixLength()')
    assert failure_of('cidr("10.0.0.0/8").containsIP("bad")') == "no such overload"
    assert "parse error" in failure_of('cidr("10.0.0.0/8").containsCIDR("bad")')


@pytest.mark.parametrize(
    "expression",
    [
        'url("HTTPS://u:p@Example.com:80/a/b?x=1#f").getScheme() == "https"',
        'url("https://u:p@Example.com:80/").getHost() == "Example.com:80"',
        'url("https://[::1%25eth0]:80/").getHostname() == "::1%eth0" && url("https://[::1]:80/").getPort() == "80"',
        'url("https://h").getPort() == ""',
        'url("https://h:").getPort() == "" && url("https://h").getEscapedPath() == ""',
        'url("https://h/p%20a/%41\u00e9\'").getEscapedPath() == "/p%20a/A%C3%A9%27"',
        'url("https://h/it\'s/%2F").getEscapedPath() == "/it\'s/%2F"',
        'url("https://h/?x=1&y=%C3%A9&x=2+3&bad;=1&&z").getQuery() == {"x": ["1", "2 3"], "y": ["\u00e9"], "z": [""]}',
        'url("/only/path").getScheme() == "" && url("mailto:a@b").getHost() == "" && url("*").getEscapedPath() == "*"',
        'url("http://a/\u00e9?#") == url("HTTP://a/%C3%A9?") && url("http://a") != url("http://a/")',
        'isURL("https://a") && isURL("/x") && !isURL("a/b") && !isURL("") && !isURL("http://a b") && !isURL("://x")',
        '!isURL("http://a:b") && !isURL("http://a:1:2")',
        'isURL("ftp://a:b:2") && !isURL("http://[::1") && !isURL("/%zz")',
        '!isURL("http://[1.2.3.4]") && !isURL("http://x[::1]")',
        '!isURL("http://a%20b") && !isURL("http://u^@h") && !isURL("/\\t")',
        'url("https://h/?y=%FF").getQuery()["y"][0].size() == 1',
    ],
)
def test_urls_and_their_parts(expression: str) -> None:
    assert holds(expression)


def test_malformed_urls_are_errors() -> None:
    assert failure_of('url("bad").getHost()') == 'parse "bad": invalid URI for request'
    assert "invalid URL escape" in failure_of('url("http://a#%zz").getHost()')
    assert "invalid port" in failure_of('url("//a:b/").getHost()')
    assert failure_of('dyn(url("http://a")) == "http://a"') == "no such overload"


def test_too_many_parameters_of_a_query_are_none_as_in_the_reference() -> None:
    assert holds(
        'url("http://a/?" + ["a"].map(x, "a&".replace("a", "a&a&a&a&a&a&a&a&a&a")).join()).getQuery().size() == 1'
    )
    many = '"&a".replace("a", "' + "a&" * 101 + '").replace("a", "' + "a&" * 101 + '")'
    assert holds(f'url("http://a/?" + {many}).getQuery() == {{}}')


def test_reading_costs_by_length() -> None:
    assert costs_of('ip("10.20.30.40").family() == 4') == (4, 4)
    assert costs_of('ip.isCanonical("10.20.30.40")') == (3, 3)
    assert costs_of('cidr("10.0.0.0/8").containsIP("10.0.0.1")') == (3, 6)
    assert costs_of('cidr("10.0.0.0/8").containsCIDR("10.0.0.0/16")') == (6, 10)
    assert costs_of('url("https://a.b/c").getHost() == "a.b"')[0] == 4
