"""The running scheduler: its loop, and what an operator sees of it."""
