"""A self-signed certificate, made in memory at the start, if none is configured.

It encrypts, but does not prove the identity of the server. kube-scheduler does the same.
"""

import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from tempfile import NamedTemporaryFile

from scheduler.runtime.tls import context_for

VALID = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""For the lifetime of the process, whatever the clocks of this machine and of its callers say.

Source: RFC 5280 4.1.2.5, of certificates without a well-defined end.
"""


def self_signed(*names: str) -> tuple[ssl.SSLContext, bytes]:
    """The context of a server with such a certificate, and the certificate itself, in PEM.

    names: those of DNS by which it is called; of this machine where none is given.
    """
    certificate, key = _certificate_and_key(names or (socket.gethostname() or "localhost",))
    context = context_for(identifies_clients=False)
    with _file_of(certificate + key) as path:
        context.load_cert_chain(path)
    return context, certificate


def _certificate_and_key(hosts: Sequence[str]) -> tuple[bytes, bytes]:
    """Each in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0][:64])])
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in dict.fromkeys((*hosts, "localhost"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(VALID[0])
        .not_valid_after(VALID[1])
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(serialization.Encoding.PEM, *form)


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """A path to the content, for as long as the context is open; in memory where there is a way to."""
    if hasattr(os, "memfd_create"):  # a container may have nowhere to write
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
