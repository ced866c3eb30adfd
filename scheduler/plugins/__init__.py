"""Filters and scores, one file each, named like kube-scheduler's plugins."""
