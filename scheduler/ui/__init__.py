"""The page at `/ui` of a running program: what devices there are, what waits, and what was decided last; read-only."""
