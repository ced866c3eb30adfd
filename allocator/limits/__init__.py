"""Limits per tenant: how much of what there is the claims of namespaces may hold, and how much they do."""
