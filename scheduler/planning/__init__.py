"""Which nodes to add so that all that is pending fits, and which could go."""
