"""Implements `weft new op NAME`: creates a family of ops with one op, and its test."""

from __future__ import annotations

from pathlib import Path

from weft.errors import ArgumentError

HOME = Path(__file__).parents[1] / "families"
"""The families of the weft that runs."""

OP = '''"""{name}: state here what it computes."""

from __future__ import annotations

import functools
from typing import Any

from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import after_copy, contiguous
from weft.ops.families.{name} import model


def _candidates(request: Request) -> list[Candidate]:
    """The kernels that take a call; add one here for each."""
    x = request.first
    if x.contiguous:
        return [_dense(request, x, Pointer(0))]
    # The input is tensor 0, the output tensor 1, the copy tensor 2.
    copy = contiguous(x, Pointer(0), Pointer(2), request.target)
    dense = Layout(x.dtype, x.shape, Buffer(x.shape, x.dtype).steps, 16)
    made = _dense(request, dense, Pointer(2), copy.steps)
    return after_copy(copy, [made], Buffer(x.shape, x.dtype))


def _dense(request: Request, x: Layout, at: Pointer, before: tuple[Step, ...] = ()) -> Candidate:
    seconds = model.seconds(x.numel, x.itemsize, request.target)
    build = functools.partial(_plan, x, at, before)
    return Candidate("dense", seconds, "a thread for each element", build)


def _plan(x: Layout, at: Pointer, before: tuple[Step, ...]) -> Plan:
    out = Buffer(x.shape, x.dtype)
    if x.numel == 0:
        return Plan((), (out,))
    kernel = source.kernel("{name}/forward.cu", f"{name}<{{source.ctype(x.dtype)}}>")
    grid = (cdiv(x.numel, model.THREADS),)
    step = Step(kernel, grid, (model.THREADS,), (at, Pointer(1), x.numel))
    return Plan((*before, step), (out,))


def _backward(ctx: Any, grad: Any) -> Any:
    return library.call("{name}")(grad)


GROUP = "{name}"
DEFINITIONS = (
    Definition(
        name="{name}",
        schema="(Tensor x) -> Tensor",
        doc="2 * x, for each element.",
        fake=lambda x: x.new_empty(x.shape),
        candidates=_candidates,
        setup=lambda ctx, inputs, output: None,
        backward=_backward,
        autocast=None,
    ),
)
'''

MODEL = '''"""The cost model of {name}. Not fitted to a record yet."""

from __future__ import annotations

from weft.ops.core.target import Target

THREADS = 256
"""Threads of a block."""


def seconds(elements: int, itemsize: int, target: Target) -> float:
    """The modelled time of a call that reads and writes each element once."""
    return target.launch + 2 * elements * itemsize / target.bandwidth
'''

CASES = '''"""Random calls of {name} for the sweep."""

from __future__ import annotations

import random
from typing import Any

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call


def _drawn(rng: random.Random, most: int) -> Call:
    shape = draw.shape(rng, (1, 2, 3), most)
    return Call("{name}", (draw.tensor(rng, shape, rng.choice(FLOATS)),), {{}})


def _peer(x: Any) -> Any:
    return 2 * x


_CASE = Case("{name}", _drawn, _peer, exact=True)
CASES = (_CASE, _CASE.with_backward())
'''

KERNEL = """// {name}: a thread for each element.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T>
__global__ void {name}(const T* x, T* y, long long n) {{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}}
"""

README = """# {name}

| kernel | when | file |
|---|---|---|
| `dense` | always; a tensor with gaps is copied first | `cuda/forward.cu` |

## Measured

<!-- table:ops_{name} -->
<!-- /table -->
"""

TEST = '''"""{name} against torch: dtypes, strides, the gradient, and the sanitizer."""

from __future__ import annotations

from typing import Any

import pytest

import draw
import weft

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_values(dtype: Any) -> None:
    x = draw.seeded(1).normal(33, 65).to(dtype)
    for view in (x, x.t(), x[1:, 1:], x[:0]):
        with weft.sanitize():
            assert torch.equal(weft.ops.{name}(view), 2 * view)


def test_gradient() -> None:
    x = draw.seeded(2).normal(5).requires_grad_()
    weft.ops.{name}(x).sum().backward()
    assert torch.equal(x.grad, torch.full((5,), 2.0))
'''

FILES = {
    "__init__.py": '"""{name}: its ops, kernels and cost model."""\n',
    "op.py": OP,
    "model.py": MODEL,
    "cases.py": CASES,
    "cuda/forward.cu": KERNEL,
    "README.md": README,
}


def new_family(name: str, families: Path = HOME) -> list[Path]:
    """Create the folder of a family, and its test in a checkout; raise if it exists."""
    if not name.isidentifier() or name != name.lower():
        raise ArgumentError(
            "an op's name is a Python name in lower case", got=repr(name), allowed="e.g. my_norm"
        )
    folder = families / name
    if folder.exists():
        raise ArgumentError("there is such a family", got=str(folder), next="take another name")
    tests = families.parents[3] / "tests" / "ops"
    if not tests.is_dir():
        raise ArgumentError(
            "an op is added in a clone of weft's repository",
            got=str(families),
            next="`weft new ladder NAME` starts a kernel of your own; `as_op` makes an op of it",
        )
    files = {folder / file: text for file, text in FILES.items()}
    files[tests / f"test_{name}.py"] = TEST
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(name=name), encoding="utf-8")
    return list(files)
