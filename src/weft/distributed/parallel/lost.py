"""The error of a process whose peers have ended."""

from __future__ import annotations

from weft.errors import Error


class RankLost(Error):
    """Other processes of a distributed program have ended; every rank that is left raises it."""
