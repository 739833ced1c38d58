"""What can go wrong, in the words of the command line."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """A question has no answer: `message` says what is wrong, `hint` what to do about it."""

    message: str
    hint: Optional[str]

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(Error, ValueError):
    """An option does not exist, or does not fit."""


class InputError(Error):
    """An input cannot be read or used."""


class DaemonError(Error):
    """The daemon cannot be reached, or refuses."""


class IncompleteWarning(UserWarning):
    """One of several inputs could not be used: the answer is about the others."""
