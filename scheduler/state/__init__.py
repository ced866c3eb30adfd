"""The cluster as decisions see it: nodes, pods, claims and slices, and what was decided since they were watched."""
