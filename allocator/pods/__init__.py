"""What pods request of devices besides their claims: extended resources, node-allocatable resources."""
