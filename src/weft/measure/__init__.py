"""Stage 4 of 5: numbers you can trust.

`check` says whether a kernel is right, `profile` what a launch of it does.
"""

from weft.measure.check import Report, check
from weft.measure.counted import Profile
from weft.measure.op import Case, Op
from weft.measure.profile import profile

__all__ = ["Case", "Op", "Profile", "Report", "check", "profile"]
