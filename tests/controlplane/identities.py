"""Who speaks to the API server: one token for each, so that RBAC is tried as in a cluster.

A service account's identity is its user name and groups; a token from a file gives both as well as the account's own
token does. So `OURS`, `EXTENDER`, `GUARD`, `DEFRAG`, `SECOND` (a second kube-scheduler) and `DRIVER` have exactly the
rights that manifests grant to these accounts, and none before; `TENANT` has those that a test grants it.
"""

import base64
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """A user name and its groups; name: of the kubeconfig's file."""

    name: str
    user: str
    groups: tuple[str, ...] = ()


def service_account(namespace: str, name: str) -> Identity:
    """The identity of a pod that runs as this service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Identity(name, f"system:serviceaccount:{namespace}:{name}", groups)


ADMIN = Identity("admin", "admin", ("system:masters",))
OURS = service_account("kube-system", "dra-scheduler")
EXTENDER = service_account("kube-system", "dra-extender")
GUARD = service_account("kube-system", "dra-guard")
DEFRAG = service_account("kube-system", "dra-defrag")
SECOND = service_account("kube-system", "dra-kube-scheduler")
DRIVER = service_account("kube-system", "example-driver")
TENANT = service_account("hostile", "tenant")
STOCK = Identity("stock", "system:kube-scheduler")
CONTROLLER_MANAGER = Identity("controller-manager", "system:kube-controller-manager")

IDENTITIES = (ADMIN, OURS, EXTENDER, GUARD, DEFRAG, SECOND, DRIVER, TENANT, STOCK, CONTROLLER_MANAGER)


def write_tokens(path: Path, identities: Iterable[Identity]) -> Mapping[Identity, str]:
    """A new token for each, written as --token-auth-file reads it: token, user, uid, "groups"."""
    tokens = {identity: secrets.token_hex(16) for identity in identities}
    lines = (f'{token},{who.user},{who.user},"{",".join(who.groups)}"\n' for who, token in tokens.items())
    write_private(path, "".join(lines))
    return tokens


def write_kubeconfig(path: Path, identity: Identity, *, server: str, ca_file: Path, token: str) -> None:
    """A kubeconfig of one context that stands on its own; JSON, which is YAML."""
    authority = base64.b64encode(ca_file.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "try", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": identity.name, "user": {"token": token}}],
        "contexts": [{"name": identity.name, "context": {"cluster": "try", "user": identity.name}}],
        "current-context": identity.name,
    }
    write_private(path, json.dumps(config, indent=2))


def write_private(path: Path, text: str) -> None:
    """A file that nobody else may read."""
    path.touch(mode=0o600)
    path.write_text(text)
