"""Types and worst-case costs of an expression, before anything runs."""
