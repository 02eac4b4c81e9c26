"""Stage 4 of 5: numbers you can trust.

`check` says whether a kernel is right, `profile` what a launch of it does, `bench` how long it
takes.
"""

from weft.measure.bench import Bench, Contender, bench
from weft.measure.check import Report, check
from weft.measure.counted import Profile
from weft.measure.op import Case, Op
from weft.measure.profile import profile

__all__ = ["Bench", "Case", "Contender", "Op", "Profile", "Report", "bench", "check", "profile"]
