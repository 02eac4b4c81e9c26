"""Times the compilation of kernels by their instructions, for drafts and for the full code.

    python benchmarks/compile_time.py [--record] [SIZES...]

The kernel has a store behind a branch for every eight instructions, after a barrier: the kind of
code that costs LLVM most. Times are processor time of one process, the least of the runs. A draft
calls functions that kernels share; the second time ("draft again") they are there.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from simspeed import fresh
from simspeed.machine import describe

import weft
from weft.device.sim.emit.generate import generate
from weft.device.sim.run import shared_code
from weft.device.sim.run.compile import compile_draft, compile_full
from weft.ptx.model import Instruction
from weft.ptx.parse import parse

RECORDS = Path(__file__).with_name("records") / "compile_time.jsonl"
SIZES = (100, 300, 1000, 3000, 10_000)
ONCE = 5000
"""Instructions from which full code, which takes half a minute, is made once only."""
T = TypeVar("T")


def kernel(instructions: int) -> str:
    """CUDA C++ of a kernel with about so many instructions of PTX."""
    steps = "".join(
        f"    if (n > {i} + t[threadIdx.x]) x[{i} * 256 + threadIdx.x] = "
        f"t[(threadIdx.x + {i}) % 256];\n"
        for i in range(instructions // 8)
    )
    return (
        "__global__ void k(float* x, int n) {\n    __shared__ float t[256];\n"
        "    t[threadIdx.x] = x[threadIdx.x];\n    __syncthreads();\n" + steps + "}\n"
    )


def measure(size: int, runs: int = 2) -> dict[str, Any]:
    """Seconds for the IR, and for machine code of each kind."""
    text = weft.cuda(kernel(size)).ptx.text
    module = parse(text)
    entry = module.entries[0]
    code = [x for x in module.functions[entry].body if isinstance(x, Instruction)]
    seconds: dict[str, list[float]] = {}

    def timed(name: str, make: Callable[[], T]) -> T:
        start = time.process_time()
        made = make()
        seconds.setdefault(name, []).append(time.process_time() - start)
        return made

    for _ in range(runs):
        ir, _info = timed("generate", lambda: generate(parse(text), entry, (256, 1, 1)))
        with tempfile.TemporaryDirectory() as folder:  # no code is shared with an earlier kernel
            os.environ["WEFT_CACHE_DIR"] = folder
            shared_code.forget()
            timed("draft", partial(compile_draft, ir))
            timed("draft again", partial(compile_draft, ir))
        if len(code) < ONCE or "full" not in seconds:
            timed("full", partial(compile_full, ir))
    return {"instructions": len(code), **{k: round(min(v), 4) for k, v in seconds.items()}}


def main() -> None:
    """Print a row for each size, and the times of first launches."""
    sizes = [int(x) for x in sys.argv[1:] if x.isdigit()] or SIZES
    rows = []
    for size in sizes:
        rows.append(measure(size))
        print(rows[-1], flush=True)
    times = ("to_result_s", "to_result_cpu_s")
    first = {k: {t: v["least"][t] for t in times} for k, v in fresh.start(3).items()}
    print("first launch of attention.cu, 885 instructions, from its source:", first)
    if "--record" in sys.argv:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with RECORDS.open("a") as file:
            row = {"when": when, "machine": describe(), "rows": rows, "first launch": first}
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
