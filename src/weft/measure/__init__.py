"""Stage 4 of 5: numbers you can trust.

`check` says whether a kernel is right.
"""

from weft.measure.check import Report, check
from weft.measure.op import Case, Op

__all__ = ["Case", "Op", "Report", "check"]
