"""Placement on files: a dump instead of a cluster, results instead of writes."""
