"""The instruction set as rows; importing this package fills the table from all files below it."""

import importlib
import pkgutil

from weft.ptx.isa.decoded import Decoded
from weft.ptx.isa.registry import bases, control_of, decode, instruction, llvm_type, lookup, rows
from weft.ptx.isa.row import InstructionRow, OperandSpec

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = [
    "Decoded",
    "InstructionRow",
    "OperandSpec",
    "bases",
    "control_of",
    "decode",
    "instruction",
    "llvm_type",
    "lookup",
    "rows",
]
