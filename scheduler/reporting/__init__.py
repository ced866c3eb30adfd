"""What users read of a pod: events, and the condition PodScheduled."""
