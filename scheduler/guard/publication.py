"""Publishes the leader's certificate and address, so that the API server finds and trusts it.

The certificate goes into the `caBundle` of each webhook of the ValidatingWebhookConfiguration, and the address into the
EndpointSlice of the Service: the other replicas are ready as well, but do not answer. Both are checked regularly, since
others can reset them, such as a replaced manifest.
"""

import asyncio
import base64
import logging
from typing import Any, Never

from scheduler.client.api import Api
from scheduler.client.api_resources import ENDPOINT_SLICES, WEBHOOKS
from scheduler.client.connection import STRATEGIC_MERGE
from scheduler.client.errors import CallFailed

EVERY_S = 5.0
"""How often it is looked whether what was published is still there."""

PORT = "webhook"
"""Name of the port in Service and EndpointSlice."""

_LOG = logging.getLogger(__name__)

Json = dict[str, Any]  # Any: objects of the API


class Publication:
    """What to publish. webhook_configuration, endpoint_slice: names, empty for none. namespace: of the latter.

    trouble: why it is not; empty while it is.
    """

    def __init__(  # noqa: PLR0913 - the two objects that it writes
        self,
        api: Api,
        *,
        webhook_configuration: str,
        certificate: bytes,
        endpoint_slice: str,
        namespace: str,
        address: str,
        port: int,
    ) -> None:
        self.trouble = ""
        self._api = api
        self._webhook_configuration = webhook_configuration
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
                    _LOG.warning("cannot publish the certificate and address of the leader: %s", error)
                self.trouble = str(error)
            else:
                self.trouble = ""
            await asyncio.sleep(EVERY_S)

    async def _publish(self) -> None:
        """Raises CallFailed."""
        if self._webhook_configuration:
            await self._publish_certificate()
        if self._endpoint_slice:
            await self._publish_address()

    async def _publish_certificate(self) -> None:
        path = WEBHOOKS.path(name=self._webhook_configuration)
        found = await self._api.request("GET", path)
        changed = [
            {"name": webhook["name"], "clientConfig": {"caBundle": self._bundle}}
            for webhook in found.get("webhooks") or ()
            if webhook["clientConfig"].get("caBundle") != self._bundle
        ]
        if changed:
            await self._api.request("PATCH", path, body={"webhooks": changed}, content_type=STRATEGIC_MERGE)
            _LOG.info("published the certificate of this process in %s", self._webhook_configuration)

    async def _publish_address(self) -> None:
        path = ENDPOINT_SLICES.path(self._namespace, self._endpoint_slice)
        found = await self._api.request("GET", path)
        wanted: Json = {
            "endpoints": [{"addresses": [self._address], "conditions": {"ready": True}}],
            "ports": [{"name": PORT, "port": self._port, "protocol": "TCP"}],
        }
        if any(found.get(field) != value for field, value in wanted.items()):
            await self._api.request("PUT", path, body={**found, **wanted})
            _LOG.info("published the address of this process in %s/%s", self._namespace, self._endpoint_slice)
