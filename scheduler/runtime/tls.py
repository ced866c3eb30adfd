"""TLS from files that may change while the program runs, and the allowed clients.

Every new connection uses the current files: certificates are renewed without a restart. If a changed file cannot be
used, the previous one stays in use, and an error is logged. If clients have to present a certificate, one of its names
has to be in the list, too: other certificates of the same CA are rejected. No session is resumed, so that a CA that is
no longer trusted cannot admit anybody.
"""

import logging
import os
import socket
import ssl
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, ClassVar

from scheduler.attempt.write_outcome import Denials
from scheduler.runtime.listening import CannotServe

_LOG = logging.getLogger(__name__)


class BadCertificates(CannotServe):
    """The files cannot be used; the message names the file."""


@dataclass(frozen=True, slots=True)
class Files:
    """Paths, in PEM. client_ca: of the authority of clients; None where clients show no certificate."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Certificates:
    """The files as they are now. context: of the listening socket. Raises BadCertificates where they cannot be used."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._seen = _stamps(files)
        self._connections = _connections()
        self._newest = self._loaded()
        self._trouble = ""
        self.context = _context(files)
        # Not by the context's sni_callback: Python prints a traceback for each server name that is not ASCII.
        self.context.wrap_bio = self._accepted  # type: ignore[assignment]

    @property
    def trouble(self) -> str:
        """Why what the files hold is not in use; empty where it is."""
        self._refresh()
        return self._trouble

    def _accepted(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **options: Any) -> ssl.SSLObject:
        """A connection whose handshake begins. options: others of `SSLContext.wrap_bio`, of their own types."""
        self._refresh()
        connection = self._newest.wrap_bio(incoming, outgoing, **options)
        assert isinstance(connection, _TlsConnection)
        connection.handshake = _Handshake(incoming, outgoing)
        return connection

    def _loaded(self) -> ssl.SSLContext:
        """The files as they are now. Raises BadCertificates."""
        context = _context(self._files)
        context.sslobject_class = self._connections
        return context

    def _refresh(self) -> None:
        stamps = _stamps(self._files)
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            self._newest = self._loaded()
        except BadCertificates as error:
            self._trouble = str(error)
            _LOG.error("cannot load the changed certificates, keeping the previous ones: %s", error)
        else:
            self._trouble = ""
            _LOG.info("reloaded certificates", extra={"file": str(self._files.certificate)})


MOST_HELLO, MOST_HANDSHAKE = 8 * 1024, 16 * 1024
"""Bytes that OpenSSL is given of a client before the server shows its certificate, and until the handshake is over.

That is several times what any client needs. OpenSSL looks for each key of a hello in its list of groups, from the
beginning: for 0.08 s in one of 64 KiB. And it works out each key of a client's certificates before it looks who vouches
for them: 0.03 s for 64 KiB.
"""

_CERTIFICATE_LEAST = 512
"""Bytes of an answer that has the server's certificate; one that asks for another hello has fewer."""


class _LargeHandshake(ssl.SSLError):
    """A client has sent more than it may before its handshake is over."""

    def __str__(self) -> str:
        """The message: Python's own errors of TLS have two arguments."""
        return str(self.args[0])


class _Handshake:
    """What a client sends until its handshake is over. incoming, outgoing: of the connection."""

    def __init__(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._read = 0
        self._most = MOST_HELLO

    @contextmanager
    def limited(self) -> Iterator[None]:
        """While the context is open, OpenSSL goes on with what has come. Raises _LargeHandshake where that is too much.

        What a client has sent beyond its handshake is given to OpenSSL after it.
        """
        rest, allowed = b"", self._most - self._read
        if self._incoming.pending > allowed:
            rest = self._incoming.read()
            self._incoming.write(rest[:allowed])
            rest = rest[allowed:]
        given = self._incoming.pending
        try:
            yield
        except ssl.SSLWantReadError:
            if rest:
                raise _LargeHandshake(f"its handshake is larger than {self._most} bytes") from None
            raise
        finally:
            self._read += given - self._incoming.pending
            if rest:
                self._incoming.write(rest)
            if self._outgoing.pending >= _CERTIFICATE_LEAST:
                self._most = MOST_HANDSHAKE


class _TlsConnection(ssl.SSLObject):
    """A connection whose client hears why its certificate is refused, as does who reads the log.

    rejections: what the log has of them, since whoever reaches the port can be rejected as often as he likes.
    """

    rejections: ClassVar[Denials]
    handshake: _Handshake
    _refusal: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises SSLError, SSLWantReadError while it needs more from the client."""
        if self._refusal is not None:
            raise self._refusal
        try:
            with self.handshake.limited():
                super().do_handshake()
            # Over: what follows is as fast as without us.
            self.__class__ = ssl.SSLObject  # type: ignore[assignment]
        except _LargeHandshake as error:
            self.rejections.denied(str(error), f"rejected a client: {error}", time.monotonic())
            raise
        except ssl.SSLError as error:
            if error.reason not in _NOT_VOUCHED_FOR:
                raise
            self.rejections.denied(str(error), f"rejected a client: {error}", time.monotonic())
            self._refusal = error
            # The event loops send what is there only when more is wanted: now that is the alert with the reason.
            raise ssl.SSLWantReadError from error


def _connections() -> type[ssl.SSLObject]:
    """The class of the connections of one listening socket."""

    class AcceptedConnection(_TlsConnection):
        rejections = Denials(__name__)

    return AcceptedConnection


_NOT_VOUCHED_FOR = ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED")
"""OpenSSL's reasons for refusing a client's certificate."""


def context_for(*, identifies_clients: bool) -> ssl.SSLContext:
    """A server's context without a certificate.

    Where clients show a certificate, TLS 1.3, as each kube-scheduler has it; older versions resume sessions by
    themselves. Where strangers come, TLS 1.2: in 1.3, a client may have the keys renewed without end, and OpenSSL does
    all that it has got of this at once. 256 KiB take 0.15 s, in which nobody else is answered.

    Keys are agreed on over P-256 alone, which every client has. By default OpenSSL also takes groups for which a server
    works 0.1 s on each hello, and a client not at all: it sends the same one again and again (CVE-2002-20001).
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if identifies_clients else ssl.TLSVersion.TLSv1_2
    if not identifies_clients:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_ecdh_curve("prime256v1")
    return context


def _context(files: Files) -> ssl.SSLContext:
    context = context_for(identifies_clients=files.client_ca is not None)
    context.set_alpn_protocols(["http/1.1"])
    try:
        # The password is for nothing but to keep OpenSSL from asking for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (OSError, ssl.SSLError) as error:
        raise BadCertificates(f"certificate {files.certificate} with key {files.key}: {_said(error)}") from error
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise BadCertificates(f"client CA {files.client_ca}: {_said(error)}") from error
    return context


def _stamps(files: Files) -> tuple[object, ...]:
    """What changes with a file; a missing file differs from any other."""
    return tuple(_stamp(path) for path in (files.certificate, files.key, files.client_ca) if path is not None)


def _stamp(path: Path) -> object:
    try:
        status = path.stat()  # of the file that a link leads to: a mounted Secret changes by its links
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def names_in(certificate: Mapping[str, Any] | None) -> list[str]:
    """The names in a client's certificate, from `SSLObject.getpeercert`: the common name, then the DNS names."""
    if not certificate:
        return []
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return common + [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]


def is_allowed(certificate: Mapping[str, Any] | None, allowed: Collection[str]) -> bool:
    """Whether the client has one of the allowed names."""
    return any(name in allowed for name in names_in(certificate))


# A self-signed certificate, made in memory at the start, if none is configured.
#
# It encrypts, but does not prove the identity of the server. kube-scheduler does the same.


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
