"""The base of every program for a cluster: caches, configuration, logs, metrics, probes, leader election."""
