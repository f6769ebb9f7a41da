"""What stops a release."""

from __future__ import annotations


class WrongInputError(Exception):
    """The release was asked for in a way that cannot be done; the text says what to do. Exit code 2."""


class ReleaseError(Exception):
    """An artefact is not what it should be. Exit code 1."""
