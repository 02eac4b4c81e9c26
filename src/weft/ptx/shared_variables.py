"""The shared memory that a kernel declares."""

from __future__ import annotations

from collections.abc import Iterable

from weft.ptx.arguments import symbols
from weft.ptx.model import Label, PtxFunction, PtxModule, PtxVariable


def shared_variables(module: PtxModule, functions: Iterable[PtxFunction]) -> list[PtxVariable]:
    """The variables in shared memory of a kernel that consists of `functions`.

    Variables of the module belong to the kernels that name them: the assembler gives other kernels
    no memory for them. A template's variables are of the module, and so are those of each kernel
    of a library.
    """
    whole = list(functions)
    named = {
        name
        for f in whole
        for item in f.body
        if not isinstance(item, Label)
        for operand in item.operands
        for name in symbols(operand)
    }
    found = [v for v in module.variables.values() if v.name in named]
    found += [v for f in whole for v in f.variables.values()]
    return [v for v in found if v.space == "shared"]
