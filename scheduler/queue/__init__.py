"""The pending pods, and the events that may help them."""
