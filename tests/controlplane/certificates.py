"""Certificates for the extender and its clients, from two authorities: one vouches for the server, one for clients."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.controlplane.rest import Json

CLIENT = "dra-kube-scheduler"
"""The common name of the client that may call."""


@dataclass(frozen=True, slots=True)
class CertificatesPair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path


class Certificates:
    """What the extender and kube-scheduler are given, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers, self._clients = trustme.CA(), trustme.CA()
        self.server_ca, self.client_ca = folder / "server-ca.crt", folder / "client-ca.crt"
        self._servers.cert_pem.write_to_path(self.server_ca)
        self._clients.cert_pem.write_to_path(self.client_ca)
        self.server = self._issued(self._servers, "server", "127.0.0.1")
        self.client = self.client_named(CLIENT)

    def client_named(self, name: str) -> CertificatesPair:
        """A client of the right authority."""
        return self._issued(self._clients, f"client-{name}", name)

    def stranger(self) -> CertificatesPair:
        """A client of the right name and another authority."""
        return self._issued(trustme.CA(), "stranger", CLIENT)

    def tls_of_extender(self) -> Json:
        """The field `tls` of a DraExtenderConfiguration."""
        files = {"certFile": self.server.certificate, "keyFile": self.server.key, "clientCaFile": self.client_ca}
        return {**{field: str(path) for field, path in files.items()}, "clientNames": [CLIENT]}

    def tls_of_scheduler(self, client: CertificatesPair | None = None) -> Json:
        """The field `tlsConfig` of an extender in a KubeSchedulerConfiguration. client: None for the right one."""
        used = client or self.client
        files = {"caFile": self.server_ca, "certFile": used.certificate, "keyFile": used.key}
        return {field: str(path) for field, path in files.items()}

    def context(self, client: CertificatesPair | None) -> ssl.SSLContext:
        """What a client in Python needs. client: None for one that shows no certificate."""
        context = ssl.create_default_context(cafile=self.server_ca)
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context

    def _issued(self, authority: trustme.CA, file: str, name: str) -> CertificatesPair:
        issued = authority.issue_cert(name, common_name=name)
        pair = CertificatesPair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        issued.cert_chain_pems[0].write_to_path(pair.certificate)
        issued.private_key_pem.write_to_path(pair.key)
        return pair
