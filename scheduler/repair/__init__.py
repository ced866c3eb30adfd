"""Repairs claims and pods: after a crash, after failed attempts, and where pods lose entries of their status."""
