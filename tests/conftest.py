"""Settings of all tests."""

from hypothesis import settings

# A test never asserts a time: on a busy machine an example may take longer than 200 ms.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
