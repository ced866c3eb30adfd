"""The claim that a template stands for, before anything has created it."""

from allocator.api import ClaimTemplate, Decoded, decode
from allocator.api.versions import GROUP


def claim_of_template(template: ClaimTemplate, name: str = "") -> Decoded:
    """As an API server would store it, under that name or the template's; its object is None if none can be created."""
    metadata = {"name": name or template.name, "namespace": template.namespace}
    raw = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": template.spec}
    return decode({**raw, "status": {}})
