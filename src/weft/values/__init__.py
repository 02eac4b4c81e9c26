"""The frozen values that pass between stages, and the results that users hold.

`code` is loaded by every launch; the values of results are in the other modules. No module here
runs a kernel or renders a result: `weft.report` renders, and the stages above produce.
"""

from weft.values.code import Parameter, Ptx, SourceLine

__all__ = ["Parameter", "Ptx", "SourceLine"]
