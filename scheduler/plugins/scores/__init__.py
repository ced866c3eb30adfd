"""Scores, one file each, named like kube-scheduler's plugin that gives the same: 0 to 100 for each node."""
