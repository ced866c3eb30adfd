"""Defragmentation: which pods to move, so that a target fits, and where each of them goes."""
