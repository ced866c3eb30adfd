"""The guard: a webhook that refuses devices that another claim holds."""
