"""The PTX and the machine code of a job's kernels, each instruction with its source line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.device.selection import select
from weft.errors import Error
from weft.kernels import Kernel
from weft.lab import sass
from weft.lab.job import Job, own
from weft.ptx.model import Instruction
from weft.ptx.parse import parse


def code(job: Job, kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Rows [number, text, source line, -1]; -1 stands for executions, which are not counted yet."""
    rows: list[list[Any]] = []
    texts = {k.program.ptx.text: k.program.ptx for k in kernels}
    modules = [parse(text, ptx.sources) for text, ptx in texts.items()]
    functions = {f.name: f for module in modules for f in module.functions.values() if f.body}
    for function in functions.values():
        rows.append([0, f"{'.entry' if function.is_entry else '.func'} {function.name}", 0, -1])
        for one in function.body:
            if isinstance(one, Instruction):
                place = one.loc.own if one.loc is not None else None
                line = place.line if place is not None and own(place.file) else 0
                rows.append([one.ptx_line, " ".join(one.text.split()), line, -1])
            else:
                rows.append([0, f"{one.name}:", 0, -1])
    names = [k.name for k in kernels if "<" in k.name]
    return {"ptx": rows, **_sass(job, names)}


_NO_CODE = (
    "There is no kernel. A template is compiled for the types of a launch: f<float><<<1, 32>>>"
)


def _sass(job: Job, names: Sequence[str]) -> dict[str, Any]:
    arch = select(job.device).model.machine
    try:
        functions = sass.sass(job, arch, names)
    except Error as error:
        return {"sass": [], "sass_note": str(error)}
    rows: list[list[Any]] = []
    for name, code in functions.items():
        rows.append([0, name, 0, -1])
        rows += [[i, text, line, -1] for i, (line, text) in enumerate(code, 1)]
    return {"sass": rows, "sass_note": "" if rows else _NO_CODE}
