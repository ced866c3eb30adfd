"""The values and types of expressions."""
