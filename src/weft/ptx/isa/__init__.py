"""The instruction set as rows; importing this package fills the table from every file in it."""

import importlib
import pkgutil

from weft.ptx.isa.registry import (
    Decoded,
    OperandSpec,
    Row,
    bases,
    control_of,
    decode,
    instruction,
    llvm_type,
    lookup,
    rows,
)

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Decoded", "OperandSpec", "Row", "bases", "control_of", "decode", "instruction", "llvm_type",
    "lookup", "rows",
]  # fmt: skip
