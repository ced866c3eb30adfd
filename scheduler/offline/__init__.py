"""The offline tool's world: a dump instead of a cluster, an answer instead of a write."""
