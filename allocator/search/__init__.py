"""The search for devices, and the contract of everything that may refuse one."""
