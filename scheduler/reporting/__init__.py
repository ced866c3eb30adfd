"""What users see of a pod: events, and the condition PodScheduled."""
