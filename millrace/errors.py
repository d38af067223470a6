"""The failures that one line explains: the command line prints them without a traceback."""


class InfraError(Exception):
    """Something outside the code is not as it must be; the message names the thing, the place and the remedy."""


class UsageError(InfraError):
    """What was asked for makes no sense; the message says what would."""
