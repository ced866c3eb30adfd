"""The configuration of the guard: a file, and flags that override it."""

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from allocator.api.findings import FieldError
from scheduler.runtime.configuration import Address, Common, LeaderElectionSection, Tls, without_other
from scheduler.runtime.section import Section, object_name, refused


def _name(name: str) -> str:
    return object_name(name) if name else name


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text)) if text else text
    except ValueError as error:
        raise refused("must be an IP address, or empty") from error


NameOrEmpty = Annotated[str, AfterValidator(_name)]


class GuardTls(Tls):
    """Certificates of the webhook, and who may call it; paths of PEM files, which are read again when they change."""

    cert_file: str = ""
    """TLS certificate. Empty: the guard creates one for `serverName` when it starts."""

    client_ca_file: str = ""
    """CA of the API server's client certificate. Empty: anybody may call who knows the path."""

    server_name: NameOrEmpty = ""
    """Name by which the API server calls the guard: SERVICE.NAMESPACE.svc. Empty: dra-guard and the namespace of the
    lease."""


class Publish(Section):
    """What the leader keeps up to date, so that the API server finds it."""

    webhook_configuration: NameOrEmpty = ""
    """ValidatingWebhookConfiguration in which the leader writes its secret path, and the certificate that it created.
    Empty: none, and the path is `/v1/resourceclaims-status`."""

    endpoint_slice: NameOrEmpty = ""
    """EndpointSlice of the Service, in the namespace of the lease, whose only endpoint is the leader. Empty: none."""

    pod_ip: Annotated[str, AfterValidator(_ip)] = ""
    """IP address of this process in that EndpointSlice."""


class GuardLeaderElection(LeaderElectionSection):
    """Which of several replicas answers; the others stand by."""

    leader_elect: Literal[True] = True
    """Always `true`: two active guards would not know what the other one has allowed."""

    resource_name: Annotated[str, AfterValidator(object_name)] = "dra-guard"
    """Name of the Lease."""


class GuardConfiguration(Common):
    """All settings of the guard."""

    kind: Literal["DraGuardConfiguration"] = "DraGuardConfiguration"
    """Always `DraGuardConfiguration`."""

    address: Address = "127.0.0.1:9444"
    """Address of the webhook (always HTTPS). Port 0: any free port."""

    tls: GuardTls = Field(default_factory=GuardTls)
    """Certificates, and who may call."""

    publish: Publish = Field(default_factory=Publish)
    """How the API server finds the leader."""

    request_timeout_s: float = Field(default=60, gt=0, le=3600)
    """`--request-timeout` of the API server, or more. 15 s after that, an allowed update can no longer be stored."""

    most_calls: int = Field(default=500, ge=1)
    """Maximum concurrent calls; further calls are asked to retry."""

    most_connections: int = Field(default=512, ge=1)
    """Maximum open connections; a further one replaces the oldest whose client has not sent a whole call."""

    leader_election: GuardLeaderElection = Field(default_factory=GuardLeaderElection)
    """Which of several replicas answers; the others stand by."""

    def disagreements(self) -> Iterator[FieldError]:
        """Contradictions between fields."""
        publish = self.publish
        yield from self.tls.disagreements()
        yield from without_other("publish", ("endpointSlice", publish.endpoint_slice), ("podIp", publish.pod_ip))
        yield from self.leader_election.disagreements()
        yield from super().disagreements()
