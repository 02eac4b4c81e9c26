"""The debugger: `weft.breakpoint`, and the prompt of `weft debug`."""

from weft.debug.breakpoints import Breakpoint
from weft.debug.debugger import Debugger
from weft.debug.session import breakpoint

__all__ = ["Breakpoint", "Debugger", "breakpoint"]
