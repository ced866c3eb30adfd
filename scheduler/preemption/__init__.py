"""Preemption: which pods have to go so that one of higher priority has a place, and what is kept for it then."""
