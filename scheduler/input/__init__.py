"""Files to objects: manifests and dumps of any mix, read for the offline tool."""
