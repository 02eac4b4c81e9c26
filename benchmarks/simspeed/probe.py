"""One measurement in a process of its own, printed as JSON.

    python probe.py start|edited|empty|memory

A script, not a module: what it imports, and when, is part of what it measures.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from pathlib import Path

KERNELS = Path(__file__).parents[1] / "kernels"


def edited() -> dict[str, float]:
    """The same for a kernel of which one line has changed since the cache was filled."""
    return start((KERNELS / "attention.cu").read_text("utf-8").replace("m = -1e30f", "m = -2e30f"))


def start(source: str | Path = KERNELS / "attention.cu") -> dict[str, float]:
    """Seconds from `weft.cuda` to the result of the first launch; imports apart.

    Processor time, too: of all threads, and the same on a busy machine.
    """
    begin = time.perf_counter()
    import numpy as np

    numpy_done = time.perf_counter()
    from weft import cuda  # `import weft` alone loads nothing: names are imported on first use

    weft_done = time.perf_counter()
    n = 128
    q, k, v = np.random.default_rng(0).standard_normal((3, n, 64), np.float32)
    out = np.zeros_like(q)
    ready, used = time.perf_counter(), time.process_time()
    kernel = cuda(source).attention
    compiled = time.perf_counter()
    kernel[n // 64, 64](q, k, v, out, n, 0.125)
    done, used = time.perf_counter(), time.process_time() - used
    scores = np.exp(q @ k.T * 0.125)
    if not np.allclose(out, scores @ v / scores.sum(1, keepdims=True), atol=1e-5):
        raise SystemExit("attention: wrong result")
    return {
        "instructions": instructions(kernel.ptx),
        "import_numpy_s": numpy_done - begin,
        "import_weft_s": weft_done - numpy_done,
        "to_ptx_s": compiled - ready,
        "to_result_s": done - ready,
        "to_result_cpu_s": used,
    }


def instructions(ptx: str) -> int:
    """Lines of PTX that are instructions."""
    body = ptx[ptx.index(".entry") :]
    return len(re.findall(r"^\s*(?:@!?%\w+\s+)?[a-z][\w.]*(?:\s[^;]*)?;", body, re.MULTILINE))


def empty() -> dict[str, float]:
    """Seconds of a warm launch that does nothing, without arguments and with an array."""
    import numpy as np

    import weft

    module = weft.cuda(
        'extern "C" __global__ void nothing() {} extern "C" __global__ void one(float* x) {}'
    )
    x = np.zeros(1024, np.float32)
    launches = {"empty_s": lambda: module.nothing[1, 32](), "array_s": lambda: module.one[1, 32](x)}
    return {name: statistics.median(_each(launch, 3000)) for name, launch in launches.items()}


def _each(launch: object, times: int) -> list[float]:
    out = []
    for _ in range(times):
        before = time.perf_counter()
        launch()  # type: ignore[operator]
        out.append(time.perf_counter() - before)
    return out[times // 10 :]


def memory() -> dict[str, float]:
    """Peak bytes of a process that compiles and runs four kernels, above its arrays."""
    import numpy as np

    import weft

    imported = peak()
    n = 1024
    f32 = [np.full((n, n), 0.5, np.float32) for _ in range(3)]
    f16 = [np.full((n, n), 0.5, np.float16) for _ in range(2)]
    arrays = sum(a.nbytes for a in (*f32, *f16))
    for name in ["sgemm_tiled", "sgemm_blocked"]:
        kernel = weft.cuda(KERNELS / f"{name}.cu").kernel(name)
        size, block = {"sgemm_tiled": (16, (16, 16)), "sgemm_blocked": (128, 256)}[name]
        kernel[(n // size, n // size), block](*f32, n, n, n)
    weft.cuda(KERNELS / "hgemm.cu").hgemm[(n // 64, n // 64), 128](*f16, f32[2], n, n, n)
    weft.cuda(KERNELS / "attention.cu").attention[n // 64, 64](*f32[:2], f32[0], f32[2], n, 0.125)
    return {"above_arrays": peak() - arrays, "above_imports": peak() - imported - arrays}


def peak() -> int:
    """Most bytes this process has held; `ru_maxrss` would begin at its parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmHWM:\s*(\d+)", status)[0]) * 1024


PROBES = {"start": start, "edited": edited, "empty": empty, "memory": memory}

if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]]()))
