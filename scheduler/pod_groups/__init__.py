"""Groups of pods: which pods are one, and where all of them have a place at once."""
