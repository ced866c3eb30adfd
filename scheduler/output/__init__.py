"""Results to what a person or a program reads."""
