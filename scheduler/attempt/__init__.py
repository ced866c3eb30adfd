"""Carries out a decision as a list of steps, which are undone if the attempt fails."""
