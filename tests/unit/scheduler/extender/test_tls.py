"""Who shows the right certificate may call, by what the files hold at that moment."""

import asyncio
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from scheduler.extender import program
from scheduler.extender.configuration import ExtenderConfiguration
from scheduler.runtime.configuration import load
from scheduler.runtime.tls import MOST_HELLO, BadCertificates, Certificates, Files, is_allowed, names_in
from tests.controlplane import certificates
from tests.controlplane.certificates import CLIENT, CertificatesPair
from tests.unit.scheduler.extender.serving import ask, connected, run, served
from tests.unit.scheduler.loops import LOOPS, Loop

REFUSED = (ssl.SSLError, ConnectionError)
"""What a client sees that is refused before it can ask."""

ANSWERED = (200, {"length": 2})

Stranger = Callable[[certificates.Certificates], CertificatesPair | None]

STRANGERS: dict[str, tuple[Stranger, str, str]] = {
    "none": (lambda _: None, "CERTIFICATE_REQUIRED", "peer did not return a certificate"),
    "of another authority": (certificates.Certificates.stranger, "UNKNOWN_CA", "certificate verify failed"),
}
"""Certificates that are refused in the handshake, with the alert that the client gets and what the log says."""


class TlsSite:
    """Files of a server in use, and a client's certificates."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.issued = certificates.Certificates(folder)
        self.files = Files(self.issued.server.certificate, self.issued.server.key, self.issued.client_ca)

    def client(self, name: str = CLIENT) -> ssl.SSLContext:
        return self.issued.context(self.issued.client_named(name))

    def take_over(self, other: "TlsSite", *names: str) -> None:
        """The files of these fields hold what the other one's hold."""
        for name in names:
            replaced(getattr(self.files, name), getattr(other.files, name).read_bytes())


def a_hello(server_name: str) -> bytes:
    """The first message of a client that asks for the server."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname=server_name).do_handshake()
    return sent.read()


GROUPS = {"secp256r1": 23, "secp384r1": 24, "secp521r1": 25, "x25519": 29, "x448": 30}
GROUPS |= {f"ffdhe{size}": 256 + number for number, size in enumerate((2048, 3072, 4096, 6144, 8192))}
GROUPS |= {"SecP256r1MLKEM768": 4587, "X25519MLKEM768": 4588, "SecP384r1MLKEM1024": 4589}
"""Over which keys may be agreed on. Source: IANA's registry TLS Supported Groups."""


def a_hello_for(group: int) -> bytes:
    """The first message of a client of TLS 1.3 that agrees on keys over this group alone, and has sent no key yet."""

    def sized(content: bytes, size: int = 2) -> bytes:
        return len(content).to_bytes(size, "big") + content

    extensions = {
        43: sized(b"\x03\x04", 1),
        10: sized(group.to_bytes(2, "big")),
        51: sized(b""),
        13: sized(b"\x04\x03\x08\x04"),
    }
    listed = b"".join(number.to_bytes(2, "big") + sized(content) for number, content in extensions.items())
    hello = b"\x03\x03" + bytes(32) + sized(b"", 1) + sized(b"\x13\x01") + sized(b"\x00", 1) + sized(listed)
    return b"\x16\x03\x01" + sized(b"\x01" + sized(hello, 3))


def replaced(path: Path, content: bytes | None) -> None:
    """Another file takes the place of this one, as it does where a Secret is mounted; or none does."""
    if content is None:
        path.unlink()
        return
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


@pytest.fixture
def site(tmp_path: Path) -> TlsSite:
    return TlsSite(tmp_path / "site")


@pytest.fixture
def other(tmp_path: Path) -> TlsSite:
    return TlsSite(tmp_path / "other")


# -- who may call


@LOOPS
def test_client_is_distinguished_by_certificate_and_name(site: TlsSite, loop: Loop) -> None:
    async def use(url: str) -> None:
        assert url.startswith("https://127.0.0.1:")
        assert await ask(url, context=site.client()) == ANSWERED
        for stranger in (None, site.issued.stranger()):
            with pytest.raises(REFUSED):
                await ask(url, context=site.issued.context(stranger))
        reported = "the client's certificate has somebody, somebody, none of which is allowed"
        assert await ask(url, context=site.client("somebody")) == (403, {"Error": reported})

    run(loop, served("nobody", CLIENT), use, Certificates(site.files))


@LOOPS
@pytest.mark.parametrize("path", ["/v1/filter", "/elsewhere"])
def test_client_that_may_not_call_is_answered_once_and_read_no_more(
    site: TlsSite, loop: Loop, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However many calls it sends at once: answering all of them would keep everybody else waiting."""
    call = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    counted: list[tuple[str, int]] = []

    async def use(url: str) -> None:
        where = urlsplit(url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=site.client("somebody"))
        writer.write(call * 1_000)
        with suppress(ConnectionError):
            answer = await reader.read()
            assert answer.count(b"HTTP/1.1 403 ") == answer.count(b"Connection: close") == 1
        writer.transport.abort()
        assert await ask(url, context=site.client()) == ANSWERED
        assert (await ask(url, context=site.client("somebody")))[0] == 403

    server = served(CLIENT, called=lambda verb, status, _: counted.append((verb, status)))
    run(loop, server, use, Certificates(site.files))
    assert len(caplog.records) == 1
    assert counted == [("filter", 403)] * path.endswith("filter") + [("filter", 200), ("filter", 403)]


@LOOPS
def test_stranger_who_asks_for_a_server_whose_name_is_not_ascii_writes_no_record(
    site: TlsSite, loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    async def use(url: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(a_hello("nameofserver").replace(b"nameofserver", b"\xff\xfe\r\n\x1b[2Jname"))
        assert await reader.read(1)
        writer.close()
        assert await ask(url, context=site.client()) == ANSWERED

    run(loop, served(CLIENT), use, Certificates(site.files))
    assert (unraisable, caplog.records) == ([], [])


@LOOPS
@pytest.mark.parametrize("which", STRANGERS)
def test_client_and_log_are_shown_why_a_certificate_is_refused(
    site: TlsSite, loop: Loop, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    stranger, alert, reason = STRANGERS[which]

    async def use(url: str) -> None:
        with pytest.raises(ssl.SSLError, match=alert):
            await ask(url, context=site.issued.context(stranger(site.issued)))

    run(loop, served(CLIENT), use, Certificates(site.files))
    (record,) = caplog.records
    assert reason in record.getMessage()


@LOOPS
def test_clients_that_are_refused_again_and_again_do_not_fill_the_log(
    site: TlsSite, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(url: str) -> None:
        for _ in range(3):
            for which in STRANGERS:
                with pytest.raises(ssl.SSLError):
                    await ask(url, context=site.issued.context(STRANGERS[which][0](site.issued)))

    run(loop, served(CLIENT), use, Certificates(site.files))
    assert len(caplog.messages) == len(set(caplog.messages)) == len({reason for *_, reason in STRANGERS.values()})


@LOOPS
def test_tls_without_an_authority_of_clients_asks_for_no_certificate(site: TlsSite, loop: Loop) -> None:
    files = Files(site.files.certificate, site.files.key)

    async def use(url: str) -> None:
        assert await ask(url, context=site.issued.context(None)) == ANSWERED

    run(loop, served(), use, Certificates(files))


def test_plain_http_is_not_answered_where_tls_is_served(site: TlsSite) -> None:
    async def use(url: str) -> None:
        with pytest.raises(ConnectionError):
            await ask(url.replace("https", "http"))

    run(asyncio.new_event_loop, served(), use, Certificates(site.files))


def test_tls_before_1_3_is_refused(site: TlsSite) -> None:
    client = site.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2

    async def use(url: str) -> None:
        with pytest.raises(ssl.SSLError):
            await ask(url, context=client)

    run(asyncio.new_event_loop, served(), use, Certificates(site.files))


def test_keys_are_agreed_on_over_no_group_that_costs_a_server_much_and_a_client_nothing(site: TlsSite) -> None:
    taken = []
    for name, group in GROUPS.items():
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        received.write(a_hello_for(group))
        with suppress(ssl.SSLError):
            Certificates(site.files).context.wrap_bio(received, sent, server_side=True).do_handshake()
        if sent.read(1) == b"\x16":  # no alert: the server asks for a key of this group
            taken.append(name)
    assert taken == ["secp256r1"]


@pytest.mark.parametrize("size", [1, 1000, 100_000], ids=["byte by byte", "in parts", "at once"])
def test_hello_that_is_larger_than_any_client_needs_is_not_read(site: TlsSite, size: int) -> None:
    """OpenSSL takes 64 KiB, and compares each key in it with each group."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = Certificates(site.files).context.wrap_bio(received, sent, server_side=True)
    record = b"\x16\x03\x01\x40\x00"
    hello = record + b"\x01\x00\xff\x00" + bytes(0x3FFC) + record + bytes(0x4000)
    most = MOST_HELLO // size * size
    for start in range(0, most, size):
        received.write(hello[start : start + size])
        with pytest.raises(ssl.SSLWantReadError):
            connection.do_handshake()
    received.write(hello[most : most + size])
    with pytest.raises(ssl.SSLError, match=r"^its handshake is larger than 8192 bytes$"):
        connection.do_handshake()
    assert sent.pending == 0


def meet(server: ssl.SSLContext, client: ssl.SSLContext, after: bytes = b"") -> ssl.SSLObject:
    """The server's end of a connection, whose client sends this in one go with the end of its handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    is_over = False
    while not is_over:
        try:
            theirs.do_handshake()
            theirs.write(after or b"x")
            is_over = True
        except ssl.SSLWantReadError:
            with suppress(ssl.SSLWantReadError):
                ours.do_handshake()
    ours.do_handshake()
    return ours


def test_what_a_client_sends_beyond_its_handshake_does_not_count(site: TlsSite) -> None:
    body = b"x" * 200_000
    ours, read = meet(Certificates(site.files).context, site.client(), body), b""
    while len(read) < len(body):
        read += ours.read(1 << 20)
    assert read == body


def test_certificates_that_are_larger_than_any_client_needs_are_not_looked_at(site: TlsSite, tmp_path: Path) -> None:
    """Whoever vouches for them, OpenSSL works out the key of each."""
    client, chain = site.client(), tmp_path / "chain.pem"
    pair = site.issued.client_named(CLIENT)
    chain.write_bytes(pair.certificate.read_bytes() * 60)
    client.load_cert_chain(chain, pair.key)
    with pytest.raises(ssl.SSLError, match="its handshake is larger than 16384 bytes"):
        meet(Certificates(site.files).context, client)


KEYS: dict[str, Callable[[], ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey]] = {
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


@pytest.mark.parametrize("shows", [False, True], ids=["strangers", "clients with certificates"])
@pytest.mark.parametrize("kind", KEYS)
def test_certificates_may_have_keys_of_any_kind(kind: str, tmp_path: Path, *, shows: bool) -> None:
    """Over which group the keys of a connection are agreed on is another matter."""
    certificate, file, now = tmp_path / "tls.crt", tmp_path / "tls.key", datetime.now(UTC)
    key, name = KEYS[kind](), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = builder.add_extension(address, critical=False).sign(key, None if kind == "Ed25519" else SHA256())
    certificate.write_bytes(signed.public_bytes(Encoding.PEM))
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    client = ssl.create_default_context(cafile=certificate)
    client.load_cert_chain(certificate, file)
    server = Certificates(Files(certificate, file, certificate if shows else None))
    assert meet(server.context, client).read() == b"x"


def test_strangers_get_tls_1_2(site: TlsSite) -> None:
    """In 1.3, each of them could have the keys of his connection renewed without end."""
    client = site.client()

    async def use(url: str) -> None:
        assert await ask(url, context=client) == ANSWERED
        client.minimum_version = ssl.TLSVersion.TLSv1_3
        with pytest.raises(ssl.SSLError):
            await ask(url, context=client)

    run(asyncio.new_event_loop, served(), use, Certificates(replace(site.files, client_ca=None)))


# -- files that change


@LOOPS
def test_new_certificate_and_key_are_shown_to_the_next_connection(site: TlsSite, other: TlsSite, loop: Loop) -> None:
    found = Certificates(site.files)
    trusts_other = other.issued.context(site.issued.client)

    async def use(url: str) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(url, context=trusts_other)
        site.take_over(other, "certificate", "key")
        assert await ask(url, context=trusts_other) == ANSWERED
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(url, context=site.client())
        assert found.trouble == ""

    run(loop, served(CLIENT), use, found)


@LOOPS
def test_new_authority_of_clients_counts_for_the_next_connection(site: TlsSite, other: TlsSite, loop: Loop) -> None:
    theirs = site.issued.context(other.issued.client)

    async def use(url: str) -> None:
        with pytest.raises(REFUSED):
            await ask(url, context=theirs)
        site.take_over(other, "client_ca")
        assert await ask(url, context=theirs) == ANSWERED
        with pytest.raises(REFUSED):
            await ask(url, context=site.client())

    run(loop, served(CLIENT), use, Certificates(site.files))


@LOOPS
@pytest.mark.parametrize("name", ["certificate", "key", "client_ca"])
@pytest.mark.parametrize("content", [b"", b"no certificate", None], ids=["empty", "other", "gone"])
def test_file_that_cannot_be_used_leaves_what_was_there(
    site: TlsSite, other: TlsSite, loop: Loop, name: str, content: bytes | None
) -> None:
    found = Certificates(site.files)
    path: Path = getattr(site.files, name)

    async def use(url: str) -> None:
        replaced(path, content)
        assert await ask(url, context=site.client()) == ANSWERED
        assert str(path) in found.trouble
        site.take_over(other, "certificate", "key", "client_ca")
        assert await ask(url, context=other.client()) == ANSWERED
        assert found.trouble == ""

    run(loop, served(CLIENT), use, found)


def test_certificate_waits_for_its_key(site: TlsSite, other: TlsSite) -> None:
    found = Certificates(site.files)
    site.take_over(other, "certificate")
    assert found.trouble.startswith(f"certificate {site.files.certificate} with key {site.files.key}: ")
    site.take_over(other, "key")
    assert found.trouble == ""


def test_session_is_not_resumed(site: TlsSite) -> None:
    """Whoever was let in by an authority has to show a certificate of the one that is trusted by then."""
    client = site.client()

    async def use(url: str) -> None:
        first, _ = await asyncio.to_thread(session_of, url, client)
        _, is_resumed = await asyncio.to_thread(session_of, url, client, first)
        assert not is_resumed

    run(asyncio.new_event_loop, served(CLIENT), use, Certificates(site.files))


def session_of(url: str, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> tuple[ssl.SSLSession, bool]:
    """The session of a connection over which a call was answered, and whether it is the one that was offered."""
    with connected(url, context, session) as secured:
        assert isinstance(secured, ssl.SSLSocket)
        secured.sendall(b"POST /v1/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert secured.recv(1024).startswith(b"HTTP/1.1 200")
        assert secured.session is not None
        return secured.session, bool(secured.session_reused)


# -- files that cannot be used at the start


@pytest.mark.parametrize("name", ["certificate", "key", "client_ca"])
@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"x")], ids=["missing", "no PEM"])
def test_start_fails_by_the_name_of_the_file(site: TlsSite, name: str, spoil: Callable[[Path], Any]) -> None:
    path: Path = getattr(site.files, name)
    spoil(path)
    with pytest.raises(BadCertificates, match=str(path)):
        Certificates(site.files)


def test_missing_file_is_reported_without_its_number_of_an_error(site: TlsSite) -> None:
    assert site.files.client_ca is not None
    site.files.client_ca.unlink()
    with pytest.raises(BadCertificates) as found:
        Certificates(site.files)
    assert str(found.value) == f"client CA {site.files.client_ca}: No such file or directory"


def test_key_of_another_certificate_is_refused(site: TlsSite, other: TlsSite) -> None:
    site.take_over(other, "key")
    with pytest.raises(BadCertificates, match=r"KEY_VALUES_MISMATCH|key values mismatch"):
        Certificates(site.files)


def test_key_with_a_password_is_refused_and_nobody_asked_for_it(site: TlsSite) -> None:
    key = load_pem_private_key(site.files.key.read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    site.files.key.write_bytes(locked)
    with pytest.raises(BadCertificates, match=str(site.files.key)):
        Certificates(site.files)


def test_program_that_cannot_use_its_certificates_says_so_and_ends(
    site: TlsSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.files.certificate.unlink()
    tls = {"certFile": str(site.files.certificate), "keyFile": str(site.files.key)}
    assert program.run(load(ExtenderConfiguration, None, {"tls": tls})) == 1
    (record,) = caplog.records
    assert record.getMessage().startswith(f"certificate {site.files.certificate} with key ")
    assert record.exc_info is None


# -- names


def a_certificate(common: str | None, *names: tuple[str, str]) -> dict[str, object]:
    subject = ((("organizationName", "kubernetes"),), *(((("commonName", common),),) if common else ()))
    return {"subject": subject, "subjectAltName": names}


def test_names_are_the_common_name_and_those_of_dns() -> None:
    found = a_certificate("a", ("DNS", "b"), ("IP Address", "10.0.0.1"), ("URI", "spiffe://c"))
    assert names_in(found) == ["a", "b"]
    assert names_in(a_certificate(None)) == []
    assert names_in({}) == names_in(None) == []


def test_one_name_that_may_call_is_enough() -> None:
    found = a_certificate("a", ("DNS", "b"))
    assert is_allowed(found, {"b", "c"})
    assert not is_allowed(found, {"kubernetes", "A"})
    assert not is_allowed(None, {"a"})
    assert not is_allowed(found, ())
