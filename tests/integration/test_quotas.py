"""What docs/migrate-from-device-plugins.md says of quotas, asked of the API server."""

import pytest

from tests.controlplane.contents import ensure_namespace
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, CLASS, POD, ApiError, Json, Kind, RestClient
from tests.integration.live.world import an_object

NAMESPACE = "team"
CLASS_NAME = "gpu.example.com"
GPU = "example.com/gpu"
OF_RESOURCE = f"requests.{GPU}"
OF_CLASS = f"{CLASS_NAME}.deviceclass.resource.k8s.io/devices"
QUOTA = Kind("v1", "ResourceQuota")


def a_claim(count: int) -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": CLASS_NAME, "count": count}}
    return an_object(CLAIM, "claim", {"devices": {"requests": [request]}}, NAMESPACE)


def a_pod() -> Json:
    resources = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    return an_object(POD, "pod", {"containers": [{"name": "c", "image": "none", "resources": resources}]}, NAMESPACE)


def refusal(api: RestClient, obj: Json) -> str:
    """Why the object would not be created, empty if it would."""
    try:
        api.create(obj, is_dry=True)
    except ApiError as error:
        return error.message
    return ""


@pytest.mark.needs("DRAExtendedResource")
def test_quota_of_the_resource_limits_pods_and_claims_together(api: RestClient) -> None:
    ensure_namespace(api, NAMESPACE)
    api.create(an_object(CLASS, CLASS_NAME, {"extendedResourceName": GPU}))
    hard = {OF_RESOURCE: "1", OF_CLASS: "2"}
    stored = api.create(an_object(QUOTA, "quota", {"hard": hard}, NAMESPACE))
    api.replace_status({**stored, "status": {"hard": hard, "used": dict.fromkeys(hard, "0")}})  # as its controller
    try:
        told = poll_until(
            lambda said: OF_RESOURCE in said, lambda: refusal(api, a_claim(2)), "the class is known as the resource"
        )
        assert "exceeded quota: quota" in told
        assert OF_CLASS in refusal(api, a_claim(3))
        assert refusal(api, a_pod()) == ""
        api.create(a_claim(1))
        assert OF_RESOURCE in refusal(api, a_pod())
    finally:
        api.delete(QUOTA, "quota", NAMESPACE)
