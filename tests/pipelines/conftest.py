"""Property tests take as long as the machine takes: a slow example is no counterexample."""

from hypothesis import settings

settings.register_profile("millrace", deadline=None, print_blob=True)
settings.load_profile("millrace")
