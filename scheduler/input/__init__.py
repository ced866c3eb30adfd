"""Files to objects: manifests and dumps, in any mix, for the commands on files."""
