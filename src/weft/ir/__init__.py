"""Textual LLVM IR for values that are one per warp (scalar) or one per lane (vector)."""

from weft.ir.builder import BITS, CONSTANT, Builder, Val
from weft.ir.module import IrFunction, IrModule

__all__ = ["BITS", "CONSTANT", "Builder", "IrFunction", "IrModule", "Val"]
