"""What every program for a cluster stands on: caches, configuration, logs, metrics, probes, leases."""
