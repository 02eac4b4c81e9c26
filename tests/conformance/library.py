"""CUDA's math library and everyday expressions, compiled by NVRTC, on arrays of every sort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

N = 1 << 16
BLOCK = 256
UNARY = {
    "float": """expf exp2f exp10f logf log2f log10f sinf cosf tanf asinf acosf atanf sinhf coshf
        tanhf sqrtf rsqrtf cbrtf erff erfcf lgammaf tgammaf expm1f log1pf floorf ceilf rintf truncf
        roundf fabsf normcdff j0f y0f sinpif cospif erfinvf __expf __logf __log2f __log10f __sinf
        __cosf __tanf __frcp_rn __fsqrt_rn __frsqrt_rn __saturatef __exp10f __tanhf""",
    "double": """exp exp2 log log2 sin cos tan asin acos atan sinh cosh tanh sqrt rsqrt cbrt erf
        erfc lgamma tgamma expm1 log1p floor ceil rint""",
    "half": "hexp hlog hsin hcos hsqrt hrsqrt hrcp htanh hexp2 hfloor hrint",
}
BINARY = {
    "float": """powf fmodf remainderf atan2f hypotf fmaxf fminf copysignf fdimf __fdividef __powf
        nextafterf __fadd_ru __fmul_rd __fdiv_rz""",
    "double": "pow fmod atan2 hypot fmax fmin __dadd_ru __dmul_rd __ddiv_rz",
    "half": "__hadd __hmul __hsub __hdiv __hmax __hmin",
    "nv_bfloat16": "__hadd __hmul __hsub __hdiv __hmax",
}
EXPRESSIONS = {
    "float": {"divide": "x / y", "mixed": "x * y + x - y * 3.5f", "fma_rz": "__fmaf_rz(x, y, x)",
              "through_int": "(float)(int)x + (float)(long long)y", "scale": "ldexpf(x, (int)y)"},
    "double": {"divide": "x / y", "fma": "fma(x, y, x)", "mixed": "x * y + x - y * 3.5"},
    "half": {"fused": "__hadd(__hmul(x, y), x)", "apart": "__hadd(__hmul_rn(x, y), x)",
             "fma": "__hfma(x, y, x)", "both": "__hsub(__hmul(x, y), __hmul(y, y))"},
    "nv_bfloat16": {"fma": "__hfma(x, y, x)", "mixed": "__hadd(__hmul(x, y), x)"},
}  # fmt: skip
DTYPES = {"float": "float32", "double": "float64", "half": "float16", "nv_bfloat16": "uint16"}


@dataclass(frozen=True)
class Case:
    """One kernel: its C++ type and the expression it computes from x and y."""

    name: str
    type: str
    expression: str


def cases() -> list[Case]:
    """Every function and expression above."""
    out = []
    for kind, names in UNARY.items():
        out += [Case(f"{kind}_{n}", kind, f"{n}(x)") for n in names.split()]
    for kind, names in BINARY.items():
        out += [Case(f"{kind}_{n}", kind, f"{n}(x, y)") for n in names.split()]
    for kind, rows in EXPRESSIONS.items():
        out += [Case(f"{kind}_{n}", kind, text) for n, text in rows.items()]
    return out


def source(rows: list[Case]) -> str:
    """CUDA C++ with one kernel a case."""
    kernel = """extern "C" __global__
void {name}(const {type}* a, const {type}* b, {type}* c, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{ {type} x = a[i], y = b[i]; c[i] = {expression}; }}
}}
"""
    head = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    return head + "".join(kernel.format(**vars(r)) for r in rows)


def values(kind: str, seed: int) -> np.ndarray[Any, Any]:
    """Numbers of every sort, as an array of the type's dtype."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[kind])
    wide = 300 if kind == "double" else 80 if kind != "half" else 10
    numbers = np.concatenate(
        [
            rng.standard_normal(N // 4) * 3,
            rng.random(N // 4) * 2,
            rng.standard_normal(N // 8) * 1e4,
            np.exp(rng.uniform(-wide, wide, N // 8)) * rng.choice([-1, 1], N // 8),
        ]
    )
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 2, 1e-40, -1e-40, 6e-8])
    numbers[: len(special)] = special
    with np.errstate(over="ignore", under="ignore"):
        if kind == "nv_bfloat16":
            plain = (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        else:
            plain = numbers.astype(dtype)
    raw = rng.integers(0, 256, (N - len(plain)) * dtype.itemsize, dtype=np.uint8).view(dtype)
    both = np.concatenate([plain, raw])
    rng.shuffle(both)
    return both
