"""Why there is no answer, and what would help."""
