"""The configuration of the stock kube-scheduler: reading, checking and writing it."""
