"""The variable `device`: its attributes and capacity, and what of them an expression reads."""
