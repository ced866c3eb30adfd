"""The steps of an attempt, one file each; `scheduler.attempt.bind_pod` lists them in their order."""
