"""The certificate that a program makes for itself: it holds whatever the clock says, and a handshake sends no more."""

import ssl
from datetime import UTC, datetime

import pytest
from cryptography import x509

from scheduler.runtime.tls import self_signed


@pytest.mark.parametrize("year", [2001, 2026, 2100])
def test_certificate_is_valid_at_any_time(year: int) -> None:
    certificate = x509.load_pem_x509_certificate(self_signed("guard.kube-system.svc")[1])
    now = datetime(year, 1, 1, tzinfo=UTC)
    assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc


def test_nothing_is_sent_after_a_handshake_for_a_client_that_might_resume_it() -> None:
    context, certificate = self_signed("guard.kube-system.svc")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cadata=certificate.decode())
    client = trusting.wrap_bio(to_client, to_server, server_hostname="guard.kube-system.svc")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    client.do_handshake()
    server.do_handshake()
    assert not to_client.pending
