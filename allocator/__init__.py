"""The decision: which devices a claim gets on which node, or why none."""
