"""Debug information of PTX: variables by their C++ names, types, and scopes."""

from weft.ptx.debug_info.read import DebugInfo, read
from weft.ptx.debug_info.types import Kind, Type
from weft.ptx.debug_info.variables import Location, Scope, Variable

__all__ = ["DebugInfo", "Kind", "Location", "Scope", "Type", "Variable", "read"]
