"""How the extender is set up: a file, and flags that have the last word.

Whoever can call it decides where pods go and has their claims written. So anything but loopback takes TLS, an authority
of clients, and a list of those that may call.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from allocator.api.findings import FieldError
from scheduler.live.configuration import Address, Common, SchedulerName, Section, is_loopback, without_other

ROLLBACK_S = 5.0
"""What of a caller's time is kept for taking back what bind wrote."""

LEAST_TIMEOUT_S = ROLLBACK_S + 5.0
"""The shortest httpTimeout that leaves a bind the time to write, verify and bind before it is taken back."""


class Mode(StrEnum):
    """Who allocates. AUTHORITATIVE: the extender, in bind. ADVISORY: kube-scheduler's own plugin, advised by filter."""

    AUTHORITATIVE = "authoritative"
    ADVISORY = "advisory"


class Tls(Section):
    """Certificates, as paths of PEM files; they are read anew when they change."""

    cert_file: str = ""
    """The extender's certificate. Empty: plain HTTP, on loopback only."""

    key_file: str = ""
    """The key of that certificate."""

    client_ca_file: str = ""
    """The authority whose certificates clients have to show. Empty: none, on loopback only."""

    client_names: list[str] = Field(default_factory=list)
    """The common or DNS names of clients that may call."""


class ExtenderConfiguration(Common):
    """All settings of the extender."""

    kind: Literal["DraExtenderConfiguration"] = "DraExtenderConfiguration"
    """Always `DraExtenderConfiguration`."""

    mode: Annotated[Mode, Field(strict=False)] = Mode.AUTHORITATIVE
    """`authoritative`: DynamicResources is off in every profile, and bind allocates. `advisory`: it is on, and the
    extender only filters and prioritizes."""

    scheduler_names: list[SchedulerName] = Field(default=["dra-kube-scheduler"], min_length=1)
    """The profiles whose pods the extender allocates for; the pods of all others pass."""

    address: Address = "127.0.0.1:9443"
    """Where kube-scheduler calls. Port 0: any that is free."""

    tls: Tls = Field(default_factory=Tls)
    """Certificates, and who may call."""

    http_timeout_s: float = Field(default=30, gt=0)
    """The extender's `httpTimeout` in kube-scheduler's configuration: after so long nobody waits for an answer."""

    most_calls: int = Field(default=500, ge=1)
    """Calls of one verb under way at the same time; further ones are told to come again."""

    most_connections: int = Field(default=512, ge=1)
    """Connections that may be open at the same time; further ones are closed at once."""

    def disagreements(self) -> Iterator[FieldError]:
        """What is wrong with fields together."""
        yield from self._about_tls()
        if self.mode is Mode.AUTHORITATIVE and self.http_timeout_s < LEAST_TIMEOUT_S:
            kept = f"{ROLLBACK_S:g} of it are kept for taking back what was written"
            problem = f"must be {LEAST_TIMEOUT_S:g} at least: {kept}"
            yield FieldError("httpTimeoutSeconds", self.http_timeout_s, problem)
        yield from super().disagreements()

    def _about_tls(self) -> Iterator[FieldError]:
        tls = self.tls
        yield from without_other("tls", ("certFile", tls.cert_file), ("keyFile", tls.key_file))
        if tls.client_ca_file and not tls.cert_file:
            yield FieldError(
                "tls.clientCaFile", tls.client_ca_file, "clients cannot show a certificate over plain HTTP"
            )
        yield from without_other("tls", ("clientCaFile", tls.client_ca_file), ("clientNames", tls.client_names))
        if not is_loopback(self.address):
            for name, value in (("certFile", tls.cert_file), ("clientCaFile", tls.client_ca_file)):
                if not value:
                    yield FieldError(f"tls.{name}", None, f"is required, since address {self.address} is not loopback")
