"""The guard: refuses an allocation of what another claim holds, whoever writes it."""
