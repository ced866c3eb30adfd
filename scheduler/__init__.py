"""Everything outside the decision for one node: input and output, the API server, scheduling, the command line."""

VERSION = "0.1.0"
"""Of dra-scheduler, defined only here."""
