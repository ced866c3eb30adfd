"""The configuration of the stock kube-scheduler: read, judged, written."""
