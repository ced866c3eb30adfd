"""Publishes the leader's path, certificate and address, so that the API server finds and trusts it.

The path and the certificate go into the `clientConfig` of each webhook of the ValidatingWebhookConfiguration, and the
address into the EndpointSlice of the Service: the other replicas are ready as well, but do not answer. All are checked
regularly, since others can reset them, such as a replaced manifest.

Who may read webhook configurations knows the path; to all others the leader answers 404, before it reads a body.
"""

import asyncio
import base64
import logging
import secrets
from collections.abc import Container
from typing import Never
from urllib.parse import urlsplit

from allocator.api.versions import Json
from scheduler.client.api_resources import ENDPOINT_SLICES, WEBHOOKS
from scheduler.client.connection import STRATEGIC_MERGE, Api
from scheduler.client.errors import CallFailed

EVERY_S = 5.0
"""How often it is looked whether what was published is still there."""

RENEW_AFTER = 60
"""A path is replaced once it was looked at so many times: after five minutes."""

PORT = "webhook"
"""Name of the port in Service and EndpointSlice."""

_SECRET_BYTES = 32

_LOG = logging.getLogger(__name__)


class SecretPath(Container[str]):
    """A path whose last segment nobody can guess. prefix: the rest of it. Contains the last segments that are valid.

    It does not stay secret: the API server shows it in messages about calls that failed, and schedulers show these to
    users. So it is renewed. The one before stays valid for as long, for API servers that do not know the new one yet.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._valid: tuple[str, ...] = (_segment(),)

    @property
    def newest(self) -> str:
        """The one to publish."""
        return f"{self._prefix}/{self._valid[0]}"

    def renew(self) -> None:
        """Make another one."""
        self._valid = (_segment(), self._valid[0])

    def __contains__(self, segment: object) -> bool:
        return any(secrets.compare_digest(str(segment).encode(), valid.encode()) for valid in self._valid)


def _segment() -> str:
    """The API server takes only segments that could be names of objects: small letters, and digits."""
    return secrets.token_hex(_SECRET_BYTES)


class Publication:
    """What to publish. webhook_configuration, endpoint_slice: names, empty for none. namespace: of the latter.

    certificate: empty where somebody else writes the `caBundle`. trouble: why it is not published; empty while it is.
    """

    def __init__(  # noqa: PLR0913 - the two objects that it writes
        self,
        api: Api,
        *,
        webhook_configuration: str,
        path: SecretPath,
        certificate: bytes,
        endpoint_slice: str,
        namespace: str,
        address: str,
        port: int,
    ) -> None:
        self.trouble = ""
        self._api = api
        self._webhook_configuration = webhook_configuration
        self._path = path
        self._looks = 0
        self._bundle = base64.b64encode(certificate).decode()
        self._endpoint_slice = endpoint_slice
        self._namespace = namespace
        self._address = address
        self._port = port

    async def run(self) -> Never:
        """Keep it there until cancelled."""
        while True:
            try:
                await self._publish()
            except CallFailed as error:
                if str(error) != self.trouble:
                    _LOG.warning("cannot publish the path, certificate and address of the leader: %s", error)
                self.trouble = str(error)
            else:
                self.trouble = ""
            await asyncio.sleep(EVERY_S)

    async def _publish(self) -> None:
        """Raises CallFailed."""
        if self._webhook_configuration:
            await self._publish_path()
        if self._endpoint_slice:
            await self._publish_address()

    async def _publish_path(self) -> None:
        path = WEBHOOKS.path(name=self._webhook_configuration)
        stored = await self._api.request("GET", path)
        changed = [
            {"name": webhook["name"], "clientConfig": wanted}
            for webhook in stored.get("webhooks") or ()
            if (wanted := self._wanted(webhook["clientConfig"]))
        ]
        if changed:
            await self._api.request("PATCH", path, body={"webhooks": changed}, content_type=STRATEGIC_MERGE)
            _LOG.info("published how to call this process in %s", self._webhook_configuration)
        self._looks += 1
        if self._looks >= RENEW_AFTER:  # from the next look on: what is published is valid, whatever fails
            self._looks = 0
            self._path.renew()

    def _wanted(self, config: Json) -> Json:
        """What is to be changed in the clientConfig of a webhook; empty where nothing is."""
        changes: Json = {}
        if self._bundle and config.get("caBundle") != self._bundle:
            changes["caBundle"] = self._bundle
        if "url" in config:
            url = urlsplit(config["url"])
            if url.path != self._path.newest:
                changes["url"] = url._replace(path=self._path.newest).geturl()
        elif config["service"].get("path") != self._path.newest:
            changes["service"] = {"path": self._path.newest}
        return changes

    async def _publish_address(self) -> None:
        path = ENDPOINT_SLICES.path(self._namespace, self._endpoint_slice)
        stored = await self._api.request("GET", path)
        wanted: Json = {
            "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
            "ports": [{"name": PORT, "port": self._port, "protocol": "TCP"}],
        }
        if any(stored.get(field) != value for field, value in wanted.items()):
            await self._api.request("PUT", path, body={**stored, **wanted})
            _LOG.info("published the address of this process in %s/%s", self._namespace, self._endpoint_slice)
