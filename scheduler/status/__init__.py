"""What a cluster has and who holds it, counted by driver, class, pool, node and namespace."""
