"""The extender: the stock kube-scheduler asks over HTTPS which nodes can give a pod its devices, and lets it bind."""
