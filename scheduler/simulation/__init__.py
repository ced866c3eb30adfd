"""Simulation: the live scheduler's decision, queue and hints under a virtual clock."""
