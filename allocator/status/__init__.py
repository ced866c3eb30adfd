"""What there is of devices, and who holds it: for people, not for decisions."""
