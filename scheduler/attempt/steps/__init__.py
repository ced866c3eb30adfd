"""The steps of an attempt, one file each; `scheduler.attempt.run` lists them in their order."""
