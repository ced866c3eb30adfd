"""The variable `device`: its attributes and capacity, and the paths that an expression reads."""
