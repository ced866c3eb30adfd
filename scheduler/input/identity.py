"""Names and uids for objects that do not exist yet: the same on every run.

Source: the resource claim controller of kube-controller-manager, apiserver's names generator.
"""

import hashlib

from allocator.api import ClaimTemplate, Decoded, decode
from allocator.api.versions import GROUP

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_MAX_BASE = 57
_MAX_GENERATED = 58
_NAMESPACE = bytes.fromhex("8f0e5c1e6d5d5f0a9d572f4b1f1d6f0b")
_VARIANTS = "89ab"


def uid_of(kind: str, namespace: str, name: str) -> str:
    """The uid that an object without one gets here: a UUID of its kind and name, version 5 of RFC 9562.

    As uuid.uuid5 makes it, in a third of the time: large inputs have ten thousands of them.
    """
    digest = hashlib.sha1(_NAMESPACE + f"{kind}/{namespace}/{name}".encode(), usedforsecurity=False).hexdigest()
    variant = _VARIANTS[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def generate_name(pod: str, entry: str) -> str:
    """`metadata.generateName` of the claim for an entry of a pod, cut in proportion where it is too long."""
    name_prefix = f"{pod}-{entry}-"
    if len(name_prefix) <= _MAX_BASE:
        return name_prefix
    return f"{pod[: len(pod) * _MAX_BASE // len(name_prefix)]}-{entry[: len(entry) * _MAX_BASE // len(name_prefix)]}"


def generated(name_prefix: str, seed: str) -> str:
    """A name as the API server generates one from `name_prefix`: with five letters, here drawn from the seed."""
    digest = hashlib.sha256(seed.encode()).digest()
    return name_prefix[:_MAX_GENERATED] + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_SUFFIX])


# The claim that a template stands for, before anything has created it.


def claim_of_template(template: ClaimTemplate, name: str = "") -> Decoded:
    """As an API server would store it, under that name or the template's; its object is None if none can be created."""
    metadata = {"name": name or template.name, "namespace": template.namespace}
    raw = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": template.spec}
    return decode({**raw, "status": {}})
