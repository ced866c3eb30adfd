"""The configuration of the extender: a file, and flags that override it.

A caller can have any pod bound and its claims written. So any address but loopback requires TLS, a CA of clients, and a
list of allowed names.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from allocator.api.findings import FieldError
from scheduler.runtime.configuration import Address, Allocating, SchedulerName, Tls, is_loopback

ROLLBACK_S = 5.0
"""What of a caller's time is kept for taking back what bind wrote."""

LEAST_TIMEOUT_S = ROLLBACK_S + 5.0
"""The shortest httpTimeout that leaves a bind the time to write, verify and bind before it is taken back."""


class Mode(StrEnum):
    """Who allocates. AUTHORITATIVE: the extender, in bind. ADVISORY: kube-scheduler's own plugin, advised by filter."""

    AUTHORITATIVE = "authoritative"
    ADVISORY = "advisory"


class Ranking(StrEnum):
    """Where the policy counts. FILTER: only the best nodes pass. PRIORITIZE: the nodes that pass are scored by it."""

    FILTER = "filter"
    PRIORITIZE = "prioritize"


class ExtenderConfiguration(Allocating):
    """All settings of the extender."""

    kind: Literal["DraExtenderConfiguration"] = "DraExtenderConfiguration"
    """Always `DraExtenderConfiguration`."""

    mode: Annotated[Mode, Field(strict=False)] = Mode.AUTHORITATIVE
    """`authoritative`: DynamicResources is off in every profile, and bind allocates. `advisory`: it is on, and the
    extender only filters and prioritizes."""

    scheduler_names: list[SchedulerName] = Field(default=["dra-kube-scheduler"], min_length=1)
    """Profiles to allocate for; pods of other profiles pass."""

    address: Address = "127.0.0.1:9443"
    """Address to serve on. Port 0: any free port."""

    tls: Tls = Field(default_factory=Tls)
    """Certificates, and who may call."""

    http_timeout_s: float = Field(default=30, gt=0)
    """`httpTimeout` of the extender in kube-scheduler's configuration: how long it waits for an answer."""

    ranking: Annotated[Ranking, Field(strict=False)] = Ranking.FILTER
    """`filter`: only the nodes that the policy finds best pass filter, and kube-scheduler's scores decide among them;
    `prioritizeVerb` is not needed. `prioritize`: others pass as well, and kube-scheduler adds the policy's scores to
    its own."""

    percentage_of_nodes_to_score: int = Field(default=0, ge=0, le=100)
    """How many nodes pass filter, if enough can provide the devices: this percentage of all, and at least 100. The
    best ones for the policy pass. 0: as in kube-scheduler, from 50 for small clusters to 5 for large ones. 100: all;
    use this, with `ranking: prioritize`, if kube-scheduler calls other extenders after this one."""

    most_calls: int = Field(default=500, ge=1)
    """Maximum concurrent calls of one verb; further calls are asked to retry."""

    most_connections: int = Field(default=512, ge=1)
    """Maximum open connections; a further one replaces the oldest whose client has not sent a whole call."""

    def disagreements(self) -> Iterator[FieldError]:
        """Contradictions between fields."""
        yield from self._about_tls()
        if self.mode is Mode.AUTHORITATIVE and self.http_timeout_s < LEAST_TIMEOUT_S:
            kept = f"{ROLLBACK_S:g} of it are reserved for undoing writes"
            problem = f"must be at least {LEAST_TIMEOUT_S:g}: {kept}"
            yield FieldError("httpTimeoutSeconds", self.http_timeout_s, problem)
        yield from super().disagreements()

    def _about_tls(self) -> Iterator[FieldError]:
        tls = self.tls
        yield from tls.disagreements()
        if not is_loopback(self.address):
            for name, value in (("certFile", tls.cert_file), ("clientCaFile", tls.client_ca_file)):
                if not value:
                    yield FieldError(f"tls.{name}", None, f"is required, since address {self.address} is not loopback")
