"""Policies that look at whole nodes, on a cluster: what is free of each node, what pods to expect, and the scores."""
