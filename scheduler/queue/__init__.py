"""The pods that wait, and the events that may help them."""
