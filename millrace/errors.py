"""Errors that the command line prints as one line, without a traceback."""


class InfraError(Exception):
    """Something outside the code is wrong; the message names the thing, the place and the remedy."""


class UsageError(InfraError):
    """Wrong arguments; the message names valid ones."""
