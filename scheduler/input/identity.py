"""Names and uids for objects that do not exist yet: the same on every run.

Source: the resource claim controller of kube-controller-manager, apiserver's names generator.
"""

import hashlib
import uuid

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_MAX_BASE = 57
_MAX_GENERATED = 58
_NAMESPACE = uuid.UUID("8f0e5c1e-6d5d-5f0a-9d57-2f4b1f1d6f0b")


def uid_of(kind: str, namespace: str, name: str) -> str:
    """The uid that an object without one gets here: a UUID of its kind and name."""
    return str(uuid.uuid5(_NAMESPACE, f"{kind}/{namespace}/{name}"))


def generate_name(pod: str, entry: str) -> str:
    """`metadata.generateName` of the claim for an entry of a pod, cut in proportion where it is too long."""
    base = f"{pod}-{entry}-"
    if len(base) <= _MAX_BASE:
        return base
    return f"{pod[: len(pod) * _MAX_BASE // len(base)]}-{entry[: len(entry) * _MAX_BASE // len(base)]}"


def generated(base: str, seed: str) -> str:
    """A name as the API server generates one from `base`: with five letters, here drawn from the seed."""
    digest = hashlib.sha256(seed.encode()).digest()
    return base[:_MAX_GENERATED] + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_SUFFIX])
