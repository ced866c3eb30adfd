"""The cluster as decisions see it: nodes, pods, claims, slices and volumes, as watched and as reserved since."""
