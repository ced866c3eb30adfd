"""All nodes at once: equal nodes are asked once, and answers are kept until something changes."""
