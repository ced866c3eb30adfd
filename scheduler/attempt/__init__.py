"""Binds a pod as decided: a list of steps, which are undone where the attempt fails."""
