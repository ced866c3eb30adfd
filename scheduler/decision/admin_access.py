"""Admin access is allowed only in labelled namespaces: the API server rejects its allocation elsewhere.

Source: KEP-5018; k8s.io/kubernetes pkg/registry/resource, AuthorizedForAdmin.
"""

from collections.abc import Mapping

from allocator.model import Claim

LABEL = "resource.kubernetes.io/admin-access"


def is_asked_for(claim: Claim) -> bool:
    """True for a claim with a request for admin access."""
    return any(alternative.admin_access for request in claim.requests for alternative in request.alternatives)


def refusal(claim: Claim, labels: Mapping[str, str]) -> str:
    """Why the claim cannot have admin access in its namespace, which has these labels; empty where it can."""
    if labels.get(LABEL) == "true":
        return ""
    return f'claim {claim} requests admin access, but its namespace does not have the label {LABEL}: "true"'
