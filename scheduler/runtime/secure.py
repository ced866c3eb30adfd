"""How probes and metrics are served outside loopback: HTTPS, and authorization.

On loopback without a certificate they are served over plain HTTP, and everybody on the machine may read them.
"""

import ssl
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from scheduler.client.api import Api
from scheduler.runtime.access import Access
from scheduler.runtime.configuration import Common, is_loopback
from scheduler.runtime.self_signed import self_signed
from scheduler.runtime.tls import Certificates, Files


@dataclass(frozen=True, slots=True)
class Secure:
    """What a server needs for it. open_paths: that everybody may read. trouble: why changed files are not in use."""

    context: ssl.SSLContext
    access: Access
    open_paths: Collection[str]
    trouble: Callable[[], str] = lambda: ""


def secure(configuration: Common, api: Api) -> Secure | None:
    """What the configuration asks for; None for plain HTTP on loopback. api: who is asked. Raises BadCertificates."""
    wanted = configuration.secure_serving
    access, open_paths = Access(api, time.monotonic), wanted.authorization_always_allow_paths
    if wanted.tls_cert_file:
        certificates = Certificates(Files(Path(wanted.tls_cert_file), Path(wanted.tls_private_key_file)))
        return Secure(certificates.context, access, open_paths, lambda: certificates.trouble)
    if is_loopback(configuration.health_address):
        return None
    context, _ = self_signed()
    return Secure(context, access, open_paths)
