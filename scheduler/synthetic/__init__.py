"""Synthetic fleets and workloads: objects of any number, drawn from a seed, the same on every machine."""
