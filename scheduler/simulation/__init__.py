"""Simulation: the live scheduler's decision, queue and hints under a virtual clock; synthetic fleets and workloads.

Those are objects of any number, drawn from a seed, the same on every machine.
"""
