"""Settings for all tests: Hypothesis has no deadline, because a busy machine may be slow, and garbage is found fast."""

import gc

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")


def pytest_collection_finish() -> None:
    """Excludes what all tests have loaded from the search for garbage, which takes half a second otherwise."""
    gc.collect()
    gc.freeze()
