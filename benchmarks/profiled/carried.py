"""Kernels of Triton and Numba for `profile_vs_ncu.py`, carried to the GPU as PTX.

    python benchmarks/profiled/carried.py     # compiles them: triton/*.ptx, numba/*.ptx

Both sides run the same PTX through `weft.load_ptx`: what the front end makes for the simulated
GPU. So the machine with the GPU needs neither Triton nor Numba. The second line of each file is the
launch: `@0` is the first array of its row here, all else is a number.
"""

from __future__ import annotations

import importlib.util
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import weft
from profiled.case import HERE, Case, f32, ints, zeros

ROOT = HERE.parents[1]
NETS, OPS = "tests/triton_kernels/nets.py", "src/weft/ladders"
NUMBA = "benchmarks/kernels/numba_kernels.py"
PACKAGES = {"triton": "triton", "numba": "numba-cuda"}
ANY = "sim:a100"
"""The compilers make code for the model: what an A100 runs, every later GPU runs as well."""
DRIVERS = "8.8"
"""The newest PTX version that files are marked with: drivers refuse what is newer than they."""
_UNPACK = {"f32": "<f", "f64": "<d", "f16": "<e"}
_LAUNCH = re.compile(r"// launch: (\w+)<<<(\(.*?\)), (\(.*?\)), (\d+)>>>\((.*)\)")


@dataclass(frozen=True)
class CarriedKernel:
    """A kernel in the file that defines it, and its launch; Triton has options and no block."""

    name: str
    source: str
    kernel: str
    grid: tuple[int, ...]
    make: Callable[[], list[Any]]
    block: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def front_end(self) -> str:
        return "numba" if self.block else "triton"

    @property
    def file(self) -> Path:
        return HERE / self.front_end / f"{self.name}.ptx"


def _h(*shape: int) -> Any:
    return f32(*shape).astype(np.float16)


def _triton(
    name: str, grid: tuple[int, ...], make: Callable[[], list[Any]], **options: Any
) -> CarriedKernel:
    return CarriedKernel(name, NETS, name, grid, make, options=options)


def _rung(
    op: str, kernel: str, grid: tuple[int, ...], make: Callable[[], list[Any]], **options: Any
) -> CarriedKernel:
    """The row of a ladder's rung in Triton, found by its name without the number."""
    (path,) = (ROOT / OPS / op).glob("rung_*_triton.py")
    return CarriedKernel(
        f"{op}_rung", f"{OPS}/{op}/{path.name}", kernel, grid, make, options=options
    )


def _numba(
    name: str, grid: tuple[int, ...], block: tuple[int, ...], make: Callable[[], list[Any]]
) -> CarriedKernel:
    return CarriedKernel(name, NUMBA, name, grid, make, block)


N, ROWS, WIDTH = 1 << 20, 512, 1000
_FP16 = dict(BM=64, BN=64, BK=32, GROUP=4, PRECISION="ieee", ACTIVATION="", num_stages=3)
ROWS_OF = [
    _triton("add", (N // 256,), lambda: [f32(N), f32(N), zeros(N), N], BLOCK=256),
    _triton("softmax", (128,), lambda: [f32(1024, WIDTH), zeros(1024, WIDTH), WIDTH, 1024, WIDTH],
            BLOCK=1024, num_stages=2),
    _triton("dropout", (N // 256,), lambda: [f32(N), zeros(N), N, 0.25, 7], BLOCK=256),
    _triton("layer_norm", (ROWS,),
            lambda: [f32(ROWS, WIDTH), zeros(ROWS, WIDTH), f32(WIDTH), f32(WIDTH), zeros(ROWS),
                     zeros(ROWS), WIDTH, WIDTH, 1e-5], BLOCK=1024),
    _triton("layer_norm_dwdb", (WIDTH // 32 + 1,),
            lambda: [f32(64, WIDTH), f32(64, WIDTH), zeros(WIDTH), zeros(WIDTH), 64, WIDTH],
            BM=16, BN=32),
    _triton("matmul", (64,),
            lambda: [_h(512, 512), _h(512, 512), _h(512, 512), *[512] * 4, 1, 512, 1, 512, 1],
            **_FP16),
    _triton("attention", (8, 4),
            lambda: [_h(4, 256, 64), _h(4, 256, 64), _h(4, 256, 64), _h(4, 256, 64),
                     zeros(4, 256), 0.125, 256], D=64, BM=32, BN=32, CAUSAL=True),
    _rung("transpose", "_transpose", (16, 16),
          lambda: [f32(1024, 1024), zeros(1024, 1024), 1024, 1024], R=64, C=64),
    _rung("reduce", "_reduce", (128,), lambda: [f32(N), zeros(1), N, 1],
          BLOCK=8192, num_warps=16),
    _rung("histogram", "_histogram", (N // 8192,),
          lambda: [ints(256, N), zeros(256, dtype=np.int32), N], BLOCK=8192, num_warps=8),
    _rung("scan", "_scan_tiles", (N // 4096,),
          lambda: [f32(N), zeros(N), zeros(N // 4096), N], BLOCK=4096, num_warps=8),
    _rung("matmul", "_matmul", (4, 4),
          lambda: [f32(256, 256), f32(256, 256), zeros(256, 256), 256, 256, 256],
          BM=64, BN=64, BK=16, num_warps=4),
    _numba("saxpy", (N // 256,), (256,), lambda: [np.float32(2), f32(N), f32(N)]),
    _numba("matmul_naive", (16, 16), (16, 16),
           lambda: [f32(256, 256), f32(256, 256), zeros(256, 256)]),
    _numba("matmul_tiled", (16, 16), (16, 16),
           lambda: [f32(256, 256), f32(256, 256), zeros(256, 256)]),
    _numba("total", (N // 256,), (256,), lambda: [f32(N), zeros(1)]),
    _numba("softmax_scan", (ROWS,), (128,), lambda: [f32(ROWS, WIDTH), zeros(ROWS, WIDTH)]),
    _numba("transpose_square", (64, 64), (16, 16), lambda: [f32(1024, 1024), zeros(1024, 1024)]),
    _numba("histogram", (N // 256,), (256,), lambda: [ints(61, N), zeros(64, dtype=np.int32)]),
    _numba("mandelbrot", (32, 32), (16, 16), lambda: [zeros(512, 512, dtype=np.int32)]),
]  # fmt: skip


# ---- here: PTX from the front ends -----------------------------------------------------------
def compiled(row: CarriedKernel) -> str:
    """The PTX that the installed front end makes of a row, with its launch at the head."""
    given = row.make()
    if row.front_end == "triton":
        import torch

        taken = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in given]
        launch, values = weft.kernel(_kernel(row), device=ANY)[row.grid].plain(
            *taken, **row.options
        )
    else:
        taken = given
        launch, values = weft.kernel(_kernel(row), device=ANY)[row.grid, row.block].plain(*given)
    kernel, shape = launch.kernel, launch.config
    entry = kernel.summary
    block = kernel.packer.pack(values)[0]
    places = {a.ctypes.data: f"@{i}" for i, a in enumerate(given) if isinstance(a, np.ndarray)}
    params = [_told(block[p.offset : p.offset + p.size], p.type, places) for p in entry.params]
    made = f"{PACKAGES[row.front_end]} {version(PACKAGES[row.front_end])}"
    source = re.sub(r"rung_\d+", "rung_NN", row.source)  # a ladder may grow
    return (
        f"// {row.kernel} of {source}, compiled by {made} (benchmarks/profiled/carried.py)\n"
        f"// launch: {kernel.entry}<<<{shape.grid}, {shape.block}, {shape.shared_bytes}>>>"
        f"({', '.join(params)})\n{bare(kernel.ptx)}"
    )


def bare(ptx: str) -> str:
    """Without what tells of source lines, which has the paths of the machine that compiled it.

    Names in which Numba counts what the process has compiled before are counted from 0.
    """
    text = re.sub(r"^\s*\.section\s+\.debug\w+\s*\{[^}]*\}", "", ptx, flags=re.MULTILINE)
    text = re.sub(r"^\s*\.(?:loc|file)\b.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\.common .*NumbaEnv.*$", "", text, flags=re.MULTILINE)
    for i, name in enumerate(dict.fromkeys(re.findall(r"_cudapy_[sl]mem_\d+", text))):
        text = re.sub(rf"\b{name}\b", f"memory_{i}", text)
    text = re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"
    return re.sub(r"^\.version .*$", _older, text, flags=re.MULTILINE)


def _older(found: re.Match[str]) -> str:
    numbers = [tuple(map(int, v.split("."))) for v in (found[0].split()[1], DRIVERS)]
    return found[0] if numbers[0] <= numbers[1] else f".version {DRIVERS}"


def _told(data: bytes, type: str, places: Mapping[int, str]) -> str:
    if type in _UNPACK:
        return repr(struct.unpack(_UNPACK[type], data)[0])
    number = int.from_bytes(data, "little")
    return places.get(number, str(number)) if len(data) == 8 else str(number)


def _kernel(row: CarriedKernel) -> Any:
    path = ROOT / row.source
    spec = importlib.util.spec_from_file_location(f"carried_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, row.kernel)


# ---- there: the files ------------------------------------------------------------------------
def cases() -> list[Case]:
    """The launches that the files hold."""
    return [_case(row) for row in ROWS_OF]


def _case(row: CarriedKernel) -> Case:
    kernel, grid, block, shared, told = launch(row.file.read_text("utf-8"))
    name = f"{row.front_end.title()} {row.name}"
    return Case(kernel, grid, block, lambda: _given(told, row.make()), row.file, shared, name)


def launch(text: str) -> tuple[str, tuple[int, ...], tuple[int, ...], int, list[str]]:
    """Kernel, grid, block, dynamic shared memory and arguments of a file."""
    found = _LAUNCH.match(text.splitlines()[1])
    assert found is not None, "the second line of a file is its launch"
    grid, block = (tuple(int(n) for n in found[i].strip("()").split(",")) for i in (2, 3))
    return found[1], grid, block, int(found[4]), found[5].split(", ")


def _given(told: Sequence[str], arrays: Sequence[Any]) -> list[Any]:
    return [arrays[int(t[1:])] if t[0] == "@" else float(t) if "." in t else int(t) for t in told]


if __name__ == "__main__":
    for one in ROWS_OF:
        one.file.parent.mkdir(exist_ok=True)
        one.file.write_text(compiled(one), encoding="utf-8")
