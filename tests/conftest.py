"""Settings for all tests: Hypothesis has no deadline, because a busy machine may be slow."""

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
