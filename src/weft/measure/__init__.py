"""Stage 4 of 5: numbers you can trust.

`check` says whether a kernel is right, `profile` what a launch of it does, `bench` how long it
takes; each is a folder, and a function of the same name in it.
"""

from weft.measure.bench.bench import Bench, Contender
from weft.measure.check.check import Report
from weft.measure.op import Case, Op
from weft.measure.profile.result import Profile

__all__ = ["Bench", "Case", "Contender", "Op", "Profile", "Report"]
