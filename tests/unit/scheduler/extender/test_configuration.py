"""What the extender's configuration has to say before anybody but this machine may call it."""

from collections.abc import Mapping

import pytest

from scheduler.extender.configuration import ExtenderConfiguration
from scheduler.runtime.configuration import InvalidConfiguration, is_loopback, load

KEYS = {"certFile": "tls.crt", "keyFile": "tls.key"}
CLIENTS = {"clientCaFile": "ca.crt", "clientNames": ["kube-scheduler"]}


def problems(**fields: object) -> list[str]:
    """What is wrong with a configuration of these fields."""
    try:
        load(ExtenderConfiguration, None, fields)
    except InvalidConfiguration as invalid:
        return [problem.removeprefix("flags: ") for problem in invalid.problems]
    return []


@pytest.mark.parametrize("address", ["127.0.0.1:9443", "127.1.2.3:0", "[::1]:9443", "localhost:9443"])
@pytest.mark.parametrize("tls", [{}, KEYS, {**KEYS, **CLIENTS}], ids=["plain", "server", "mutual"])
def test_this_machine_may_call_with_tls_or_without(address: str, tls: Mapping[str, object]) -> None:
    assert is_loopback(address)
    assert problems(address=address, tls=tls) == []


@pytest.mark.parametrize("address", ["0.0.0.0:9443", "[::]:9443", "10.0.0.1:9443", "extender.example:9443"])
def test_others_may_call_with_a_certificate_of_known_clients_only(address: str) -> None:
    assert not is_loopback(address)
    no_certificate = f"tls.certFile: is required, since address {address} is not loopback"
    no_clients = f"tls.clientCaFile: is required, since address {address} is not loopback"
    assert problems(address=address) == [no_certificate, no_clients]
    assert problems(address=address, tls=KEYS) == [no_clients]
    assert problems(address=address, tls={**KEYS, **CLIENTS}) == []


@pytest.mark.parametrize(
    ("tls", "problem"),
    [
        ({"certFile": "tls.crt"}, "tls.keyFile: is required, since tls.certFile is set"),
        ({"keyFile": "tls.key"}, "tls.certFile: is required, since tls.keyFile is set"),
        ({**KEYS, "clientCaFile": "ca.crt"}, "tls.clientNames: is required, since tls.clientCaFile is set"),
        ({**KEYS, "clientNames": ["a"]}, "tls.clientCaFile: is required, since tls.clientNames is set"),
        (
            CLIENTS,
            'tls.clientCaFile: needs tls.certFile: without it no client is asked for a certificate (got "ca.crt")',
        ),
    ],
)
def test_files_and_names_come_in_pairs(tls: Mapping[str, object], problem: str) -> None:
    assert problems(tls=tls) == [problem]


def test_bind_needs_time_to_be_taken_back() -> None:
    problem = "httpTimeoutSeconds: must be at least 10: 5 of it are reserved for undoing writes (got 9.5)"
    assert problems(httpTimeoutSeconds=9.5) == [problem]
    assert problems(httpTimeoutSeconds=10.0) == []
    assert problems(httpTimeoutSeconds=1.0, mode="advisory") == []
