"""What holds for every test: none is about how long an example takes on a busy machine."""

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
