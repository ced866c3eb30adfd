"""Everything outside the decision for one node: input and output, the API server, scheduling, the command line."""
