"""The steps of an attempt, by what they write; `scheduler.attempt.run` lists them in their order."""
