"""Results in formats for people and programs."""
