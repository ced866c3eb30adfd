"""Property tests look at what comes out, never at how long an example takes: that is up to the machine."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
