"""The certificate that a program makes for itself: it holds whatever the clock says, and a handshake sends no more."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from cryptography import x509

from scheduler.runtime.tls import self_signed


@pytest.mark.parametrize("year", [2001, 2026, 2100])
def test_certificate_is_valid_at_any_time(year: int) -> None:
    certificate = x509.load_pem_x509_certificate(self_signed("guard.kube-system.svc")[1])
    now = datetime(year, 1, 1, tzinfo=UTC)
    assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc


def shaken_hands(context: ssl.SSLContext, trusting: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.MemoryBIO]:
    """The client after its handshake with the server, and what it has not read yet. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname="guard.kube-system.svc")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for one in (client, server):
            with suppress(ssl.SSLWantReadError):
                one.do_handshake()
    return client, to_client


def test_nothing_is_sent_after_a_handshake_for_a_client_that_might_resume_it() -> None:
    context, certificate = self_signed("guard.kube-system.svc")
    client, to_client = shaken_hands(context, ssl.create_default_context(cadata=certificate.decode()))
    assert client.session
    assert not client.session.has_ticket
    assert not to_client.pending


def test_stranger_cannot_have_the_keys_of_a_connection_renewed() -> None:
    """As TLS 1.3 lets a client do without end: 256 KiB of such messages are read in one go, which takes 0.15 s."""
    context, certificate = self_signed("guard.kube-system.svc")
    trusting = ssl.create_default_context(cadata=certificate.decode())
    client, _ = shaken_hands(context, trusting)
    assert client.version() == "TLSv1.2"
    assert context.options & ssl.OP_NO_RENEGOTIATION
    trusting.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(ssl.SSLError, match="unsupported protocol"):
        shaken_hands(context, trusting)
