"""The decision for one pod: the queue that it waits in, filters, devices, scores, and what is taken for it."""
