"""What pods ask of devices beside their claims: extended resources, node-allocatable resources."""
