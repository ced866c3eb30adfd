"""The cluster as an attempt sees it: slices, pools, what is in use, and the devices that a node reaches."""
