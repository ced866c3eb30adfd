"""Repairs claims and pods: after a crash, after failed attempts, and if pods lose entries of their status."""
