"""The random arguments of each op, and the same computation in torch."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.ops.families.scan import reference
from weft.ops.sweep import draw
from weft.ops.sweep.draw import Call

FLOATS = ("float32", "float16", "bfloat16")
Draw = Callable[[random.Random, int], Call]


@dataclass(frozen=True)
class Case:
    """One op.

    draw   a call from a random generator, with at most so many elements in a tensor
    torch  the same by torch: (tensors, options) -> result
    exact  True if the result must be equal, as for copies and indices
    depth  the number of terms that a result sums; the tolerance grows with it
    scale  the reference magnitude for errors if results may cancel: (*tensors, call) -> number
    """

    op: str
    draw: Draw
    torch: Callable[..., Any]
    exact: bool = False
    depth: Callable[[Call], int] = lambda call: 1
    scale: Callable[..., float] = lambda *tensors_and_call: 0.0


def _elementwise(name: str, operands: int) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape, dtype = draw.shape(rng, (1, 2, 3, 4), most), rng.choice(FLOATS)
        shapes = [shape]
        for _ in range(operands - 1):
            way = rng.random()
            if way < 0.7:
                shapes.append(shape)
            elif way < 0.85:
                shapes.append(shape[-1:])
            else:
                shapes.append(tuple(1 if rng.random() < 0.5 else s for s in shape))
        return Call(name, tuple(draw.tensor(rng, s, dtype) for s in shapes), {})

    return drawn


ANY = (*FLOATS, "int64", "int16", "uint8")
"""Dtypes of every size, for copies."""


def _permute(rng: random.Random, most: int) -> Call:
    shape, dtype = draw.shape(rng, (2, 2, 3, 4, 5), most), rng.choice(ANY)
    dims = list(range(len(shape)))
    rng.shuffle(dims)
    return Call("permute", (draw.tensor(rng, shape, dtype, plain=0.8),), {"dims": tuple(dims)})


def _transpose(rng: random.Random, most: int) -> Call:
    shape, dtype = draw.shape(rng, (2, 2, 3), most), rng.choice(ANY)
    dim0 = rng.randrange(len(shape) - 1)
    options = {"dim0": dim0, "dim1": rng.randrange(dim0 + 1, len(shape))}
    return Call("transpose", (draw.tensor(rng, shape, dtype, plain=0.8),), options)


def _contiguous(rng: random.Random, most: int) -> Call:
    """Tensors that are not contiguous yet: in another order, or with gaps."""
    shape, dtype = draw.shape(rng, (2, 3, 4), most), rng.choice(ANY)
    tensor = draw.Tensor(shape, dtype, tuple(range(len(shape))), gap=rng.choice((1, 3, 8, 32)))
    if rng.random() < 0.6:
        tensor = draw.Tensor(shape, dtype, tuple(rng.sample(tensor.order, len(shape))))
    return Call("contiguous", (tensor,), {})


def _copied(x: Any) -> Any:
    return x.clone(memory_format=torch.contiguous_format)


def _rows(name: str) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape, dtype = draw.shape(rng, (1, 2, 2, 3), most), rng.choice(FLOATS)
        dim = -1 if rng.random() < 0.7 else rng.randrange(len(shape))
        return Call(name, (draw.tensor(rng, shape, dtype),), {"dim": dim})

    return drawn


def _reduced(name: str, one: bool = False, floats: bool = True, **extra: Any) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape = draw.shape(rng, (1, 2, 2, 3, 4), most)
        dtype = rng.choice(FLOATS if floats else (*FLOATS, "int32", "int64", "uint8", "bool"))
        way = rng.random()
        dim: Any = None
        if way < 0.35:
            dim = len(shape) - 1
        elif way < 0.6:
            dim = rng.randrange(len(shape))
        elif way < 0.8 and not one:
            dim = tuple(d for d in range(len(shape)) if rng.random() < 0.5) or (0,)
        options = {"dim": dim, "keepdim": rng.random() < 0.3, **extra}
        return Call(name, (draw.tensor(rng, shape, dtype),), options)

    return drawn


def _terms(call: Call) -> int:
    shape, dim = call.tensors[0].shape, call.options["dim"]
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    return math.prod(shape[d] for d in dims)


def _sums(x: Any, call: Call) -> float:
    """The largest sum of absolute values."""
    return float(x.double().abs().sum(call.options["dim"]).max()) if x.numel() else 0.0


def _means(x: Any, call: Call) -> float:
    return _sums(x, call) / max(1, _terms(call))


def _matmul(rng: random.Random, most: int) -> Call:
    """Sizes with a bounded number of products; a batch in one of five calls."""
    edge = max(2, round(most ** (1 / 2)))
    work = most ** (3 / 2)
    least = 1 if rng.random() < 0.35 else max(1, round(edge**0.5))
    m, n, k = (max(least, draw.size(rng, edge)) for _ in range(3))
    while m * n * k > work:
        m, n, k = max(1, m // 2), max(1, n // 2), max(1, k // 2)
    lead: tuple[int, ...] = ()
    if rng.random() < 0.2:
        lead = (draw.size(rng, max(1, min(256, round(work / (m * n * k))))),)
    a = draw.tensor(rng, (*lead, m, k), "float32")
    b = draw.tensor(rng, (*(lead if rng.random() < 0.5 else ()), k, n), "float32")
    return Call("matmul", (a, b), {})


def _scanned(name: str, contents: str = "plain", **extra: Sequence[Any]) -> Draw:
    """Scans of floating-point numbers or integers; each extra option is one of its values."""

    def drawn(rng: random.Random, most: int) -> Call:
        shape = draw.shape(rng, (1, 2, 2, 3), most)
        dtype = rng.choice((*FLOATS, "float32", "int32", "int64"))
        dim = len(shape) - 1 if rng.random() < 0.6 else rng.randrange(len(shape))
        options = {"dim": dim, **{k: rng.choice(v) for k, v in extra.items()}}
        tensor = draw.tensor(rng, shape, dtype)
        return Call(name, (dataclasses.replace(tensor, contents=contents),), options)

    return drawn


def _histogram(rng: random.Random, most: int) -> Call:
    """Counts of bytes, uniform or skewed, or of floating-point numbers in a range or their own."""
    shape = draw.shape(rng, (1, 1, 2, 3), most)
    if rng.random() < 0.4:
        tensor = draw.tensor(rng, shape, rng.choice(("int32", "uint8", "int64")), plain=0.8)
        contents = rng.choice(("bytes", "skewed"))
        return Call("histogram", (dataclasses.replace(tensor, contents=contents),), {"bins": 256})
    tensor = draw.tensor(rng, shape, rng.choice(("float32", "float32", "float16")), plain=0.8)
    contents = rng.choice(("plain", "plain", "skewed"))
    options: dict[str, Any] = {"bins": rng.choice((10, 64, 100, 256, 1000, 5000))}
    if rng.random() < 0.7:
        options |= {"min": -3.0, "max": 3.0}
    return Call("histogram", (dataclasses.replace(tensor, contents=contents),), options)


def _counted(x: Any, bins: int, min: float = 0.0, max: float = 0.0) -> Any:
    if not x.is_floating_point():
        return torch.bincount(x.reshape(-1), minlength=bins)
    return torch.histc(x.float(), bins, min, max)  # bins are computed in single precision


def _length(call: Call) -> int:
    tensor = call.tensors[0]
    return tensor.shape[call.options.get("dim", -1)] if tensor.shape else 1


CASES: Sequence[Case] = (
    Case("add", _elementwise("add", 2), lambda a, b: a + b),
    Case("mul", _elementwise("mul", 2), lambda a, b: a * b),
    Case("fma", _elementwise("fma", 3), lambda a, b, c: a * b + c),
    Case("div", _elementwise("div", 2), lambda a, b: a / b),
    Case("maximum", _elementwise("maximum", 2), torch.maximum, exact=True),
    Case("less", _elementwise("less", 2), torch.less, exact=True),
    Case("exp", _elementwise("exp", 1), torch.exp),
    Case("tanh", _elementwise("tanh", 1), torch.tanh),
    Case("permute", _permute, lambda x, dims: _copied(x.permute(dims)), exact=True),
    Case(
        "transpose", _transpose, lambda x, dim0, dim1: _copied(x.transpose(dim0, dim1)), exact=True
    ),
    Case("contiguous", _contiguous, _copied, exact=True),
    Case("softmax", _rows("softmax"), lambda x, dim: torch.softmax(x, dim)),
    Case("log_softmax", _rows("log_softmax"), lambda x, dim: torch.log_softmax(x, dim)),
    Case("sum", _reduced("sum", floats=False), torch.sum, depth=_terms, scale=_sums),
    Case("mean", _reduced("mean"), torch.mean, depth=_terms, scale=_means),
    Case(
        "amax",
        _reduced("amax", floats=False),
        lambda x, dim, keepdim: torch.amax(x, dim if dim is not None else (), keepdim),
        exact=True,
    ),
    Case("argmax", _reduced("argmax", one=True), torch.argmax, exact=True),
    Case(
        "norm",
        _reduced("norm", ord=2.0),
        lambda x, dim, keepdim, ord: torch.linalg.vector_norm(x, ord, dim, keepdim),
        depth=_terms,
    ),
    Case(
        "var",
        _reduced("var", correction=1),
        lambda x, dim, keepdim, correction: torch.var(
            x, dim, correction=correction, keepdim=keepdim
        ),
        depth=_terms,
    ),
    Case(
        "any",
        _reduced("any", floats=False),
        lambda x, dim, keepdim: (
            torch.any(x, dim, keepdim)
            if dim is not None
            else torch.any(x, tuple(range(x.dim())), keepdim)
        ),
        exact=True,
    ),
    Case(
        "count_nonzero",
        _reduced("count_nonzero", floats=False),
        lambda x, dim, keepdim: (x != 0).sum(dim, keepdim),
        exact=True,
    ),
    Case("cumsum", _scanned("cumsum"), torch.cumsum, depth=_terms, scale=_sums),
    Case("cumprod", _scanned("cumprod", "near one"), torch.cumprod, depth=_terms),
    Case("cummax", _scanned("cummax"), lambda x, dim: torch.cummax(x, dim)[0], exact=True),
    Case(
        "scan",
        _scanned("scan", op=("sum", "max"), exclusive=(True, False), reverse=(True, False)),
        reference,
        depth=_terms,
        scale=_sums,
    ),
    Case("histogram", _histogram, _counted, exact=True),
    Case("matmul", _matmul, torch.matmul, depth=lambda call: call.tensors[0].shape[-1]),
)
