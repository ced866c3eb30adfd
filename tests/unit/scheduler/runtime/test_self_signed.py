"""The certificate that a program makes for itself holds whatever the clock says when it starts."""

from datetime import UTC, datetime

import pytest
from cryptography import x509

from scheduler.runtime.self_signed import self_signed


@pytest.mark.parametrize("year", [2001, 2026, 2100])
def test_certificate_is_valid_at_any_time(year: int) -> None:
    certificate = x509.load_pem_x509_certificate(self_signed("guard.kube-system.svc")[1])
    now = datetime(year, 1, 1, tzinfo=UTC)
    assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc
