"""The decision for one pod: filters, devices, scores, and why there is no node."""
