"""The values of expressions, and what their operators mean."""
