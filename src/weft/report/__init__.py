"""Stage 5 of 5: records as people read them.

`profile` gives a `Profile` that prints itself, is a table in notebooks, and saves itself as a page.
"""

from weft.report.profile import Profile, profile

__all__ = ["Profile", "profile"]
