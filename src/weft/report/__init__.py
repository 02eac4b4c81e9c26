"""Stage 5 of 5: shows results as text, tables and HTML pages.

`profile` returns a `Profile` that can be printed, shown in a notebook, and saved as a page.
"""

from weft.report.profile import Profile, profile

__all__ = ["Profile", "profile"]
