"""Matrix products in single precision: matmul, and addmm with a bias and an activation."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate, Request
from weft.ops.copies import contiguous
from weft.ops.function import Definition
from weft.ops.layouts import merged
from weft.ops.plan import COUNTERS, Argument, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.target import Target

ACTIVATIONS = ("", "relu", "gelu", "silu", "gelu_tanh")
FEW = 8
"""Rows or columns up to which a product is a handful of dot products."""
WIDE, NARROW, TURNED = 0, 1, 2
"""How an operand is copied: 16 bytes along M or N, 4 bytes along M or N, 4 bytes along K."""


class Tile(NamedTuple):
    """A tile of C: what a block, a warp and a thread compute of it.

    The last four describe its time, fitted to 296 products on an H200 with an error of 5 to 8 %:

    resident  blocks that an SM holds
    reach     the share of the arithmetic peak in the loop over K
    over      seconds before and after the loop, once for the blocks that an SM holds
    join      seconds per byte of a tile, by which each part of K makes the last block wait
    """

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    tm: int
    tn: int
    stages: int
    resident: int
    reach: float
    over: float
    join: float

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    def shared(self, a_mode: int, b_mode: int) -> int:
        """Bytes of shared memory."""
        rows = self.bm + 4 * (a_mode == TURNED) + self.bn + 4 * (b_mode == TURNED)
        return 4 * self.stages * self.bk * rows


TILES = (
    Tile(128, 256, 8, 64, 64, 8, 16, 2, 1, 0.72, 4e-6, 0.8e-11),
    Tile(128, 128, 8, 64, 32, 8, 8, 3, 2, 0.69, 4e-6, 0.8e-11),
    Tile(64, 128, 8, 32, 64, 8, 8, 4, 4, 0.69, 4e-6, 1.5e-11),
    Tile(64, 64, 16, 32, 32, 8, 4, 3, 5, 0.60, 2e-6, 2.5e-11),
    Tile(32, 64, 16, 16, 32, 4, 4, 4, 8, 0.54, 1e-6, 2.5e-11),
    Tile(32, 32, 16, 16, 32, 4, 4, 4, 16, 0.45, 2e-6, 3.8e-11),
)
NARROWED = 0.92
"""What is left of the rate where B is copied 4 bytes at a time."""
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)


class Operand(NamedTuple):
    """One matrix of a batch: where it is, and its strides along M or N, along K and the batch."""

    pointer: Pointer
    along: int
    k: int
    batch: int
    aligned: bool

    def mode(self, extent: int, depth: int) -> int | None:
        """How tiles of it are copied; None where it must be made contiguous first."""
        if self.k == 1 or depth == 1:
            return TURNED
        if self.along != 1 and extent != 1:
            return None
        whole = self.aligned and extent % 4 == 0 and self.k % 4 == 0 and self.batch % 4 == 0
        return WIDE if whole else NARROW

    def pitch(self, mode: int) -> int:
        """The stride that is not 1."""
        return self.along if mode == TURNED else self.k


@dataclass(frozen=True)
class Product:
    """C[batch, M, N] = activation(A[batch, M, K] B[batch, K, N] + bias)."""

    batch: int
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    bias: tuple[Pointer, int, int, int] | None  # strides along the batch, M and N
    row_c: int
    column_c: int
    activation: int
    out: Buffer
    before: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()
    inputs: int = 2

    @property
    def c(self) -> Pointer:
        return Pointer(self.inputs)

    def turned(self) -> Product:
        """The same product as the transpose of B' A'."""
        bias = self.bias and (self.bias[0], self.bias[1], self.bias[3], self.bias[2])
        return replace(
            self, m=self.n, n=self.m, a=self.b, b=self.a, bias=bias, row_c=self.column_c,
            column_c=self.row_c,
        )  # fmt: skip

    def problem(self, splits: int, each: int, tiles: tuple[int, int], lda: int, ldb: int) -> bytes:
        """The struct that the kernels take."""
        _, *strides = self.bias or (None, 0, 0, 0)
        return struct.pack(
            "<5i4x12q2i", self.m, self.n, self.k, splits, each, lda, ldb, self.a.along, self.a.k,
            self.a.batch, self.b.batch, self.m * self.n, self.row_c, self.column_c,
            strides[1], strides[2], strides[0], *tiles,
        )  # fmt: skip

    def scratch_number(self) -> Pointer:
        """The number of the next scratch buffer."""
        return Pointer(self.inputs + 1 + len(self.scratch))


# ---- from tensors to a product -----------------------------------------------------------------
class Matrices(NamedTuple):
    """An argument as a batch of matrices, with the strides of the batch it is broadcast to."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: Layout
    pointer: Pointer


def _matrices(x: Layout, left: bool, number: int) -> Matrices:
    """A vector is a row on the left, a column on the right."""
    if len(x.shape) > 1:
        return Matrices(x.shape, x.strides, x, Pointer(number))
    (size,), (stride,) = x.shape, x.strides
    if left:
        return Matrices((1, size), (size * stride, stride), x, Pointer(number))
    return Matrices((size, 1), (stride, 1), x, Pointer(number))


def _broadcast(x: Matrices, lead: Sequence[int]) -> Matrices:
    """The matrices of a whole batch; strides are 0 where they repeat."""
    missing = len(lead) - (len(x.shape) - 2)
    own = zip(x.shape[:-2], x.strides[:-2], strict=True)
    strides = [0] * missing + [0 if size == 1 else stride for size, stride in own]
    return x._replace(shape=(*lead, *x.shape[-2:]), strides=(*strides, *x.strides[-2:]))


class Making:
    """A product while it is put together: copies of operands that no kernel can read."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.steps: list[Step] = []
        self.scratch: list[Buffer] = []

    def copied(self, x: Matrices) -> Matrices:
        """A contiguous copy."""
        end = Pointer(len(self.request.inputs) + 1 + len(self.scratch))
        view = Layout(x.layout.dtype, x.shape, x.strides, x.layout.aligned)
        self.steps += contiguous(view, x.pointer, end, self.request.target).steps
        buffer = Buffer(x.shape, x.layout.dtype)
        self.scratch.append(buffer)
        dense = Layout(x.layout.dtype, x.shape, buffer.steps, 16)
        return Matrices(x.shape, buffer.steps, dense, end)

    def operand(self, x: Matrices, left: bool) -> tuple[int, Operand]:
        """The size of the batch and the operand; copied where its strides are too many."""
        along, k = (-2, -1) if left else (-1, -2)
        walk = merged(x.shape[:-2], [x.strides[:-2]])
        batch = walk.strides[0][0] if walk.sizes != (1,) else 0
        found = Operand(
            x.pointer, x.strides[along], x.strides[k], batch, x.layout.aligned == 16
        )  # fmt: skip
        if len(walk.sizes) > 1 or found.mode(x.shape[along], x.shape[k]) is None:
            return self.operand(self.copied(x), left)
        return walk.sizes[0], found


def _made(request: Request) -> Product:
    """The product that a request asks for."""
    bias, left, right = request.inputs if len(request.inputs) == 3 else (None, *request.inputs)
    assert left is not None and right is not None
    first = len(request.inputs) - 2
    a, b = _matrices(left, True, first), _matrices(right, False, first + 1)
    lead = tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    making = Making(request)
    rows = merged(a.shape[:-1], [a.strides[:-1]])
    if len(b.shape) == 2 and len(rows.sizes) == 1:  # one B: the rows of all matrices of A follow
        m = rows.sizes[0]
        a = a._replace(shape=(m, k), strides=(rows.strides[0][0], a.strides[-1]))
        size, first_operand = making.operand(a, True)
        _, second = making.operand(b, False)
    else:
        size, first_operand = making.operand(_broadcast(a, lead), True)
        other, second = making.operand(_broadcast(b, lead), False)
        size = max(size, other)
    shape = (*lead, *left.shape[-2:-1], *(right.shape[-1:] if len(right.shape) > 1 else ()))
    return Product(
        size, m, n, k, first_operand, second, _bias(bias, m, n), n, 1,
        ACTIVATIONS.index(request.options.get("activation", "")), Buffer(shape, left.dtype),
        tuple(making.steps), tuple(making.scratch), len(request.inputs),
    )  # fmt: skip


def _bias(bias: Layout | None, m: int, n: int) -> tuple[Pointer, int, int, int] | None:
    """The bias and its strides along the batch, M and N: 0 where it repeats."""
    if bias is None:
        return None
    shape = (1,) * (2 - len(bias.shape)) + bias.shape
    strides = (0,) * (2 - len(bias.shape)) + bias.strides
    return Pointer(0), 0, strides[0] if shape[0] > 1 else 0, strides[1] if shape[1] > 1 else 0


# ---- candidates --------------------------------------------------------------------------------
def _candidates(request: Request) -> list[Candidate]:
    made = _made(request)
    out = made.out
    if 0 in (made.batch, made.m, made.n):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    found = _tiled(made, request.target)
    if min(made.m, made.n) <= FEW:
        found += _few(made if made.m <= made.n else made.turned(), request.target)
    return found


def _tiled(p: Product, gpu: Target, most: int = 8) -> list[Candidate]:
    found = []
    a_mode, b_mode = p.a.mode(p.m, p.k), p.b.mode(p.n, p.k)
    assert a_mode is not None and b_mode is not None
    moved = 4 * p.batch * (p.m * p.k + p.k * p.n + p.m * p.n)
    for tile in TILES:
        tiles = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn)
        for splits in SPLITS:
            each = cdiv(cdiv(max(p.k, 1), splits), tile.bk) * tile.bk
            if splits > 1 and (
                each < 4 * tile.bk or cdiv(p.k, each) != splits or tiles * p.batch > COUNTERS
                or tiles * p.batch > 2 * gpu.sms
            ):  # fmt: skip
                continue
            cost = _time(p, tile, tiles, splits, each, moved, gpu)
            name = f"{tile.bm} x {tile.bn}" + (f", K in {splits}" if splits > 1 else "")
            why = f"{tiles * p.batch * splits} blocks for {gpu.sms} SMs"
            build = functools.partial(_plan_tiled, p, tile, splits, each, a_mode, b_mode)
            found.append(Candidate(name, cost, why, build))
    return sorted(found, key=lambda c: c.cost)[:most]


def _time(
    p: Product, tile: Tile, tiles: int, splits: int, each: int, moved: int, gpu: Target
) -> float:
    """The modelled time: the SM with the most blocks decides, and memory is the floor."""
    blocks = tiles * splits * p.batch
    most = cdiv(blocks, gpu.sms)
    busy = min(1.0, min(most, tile.resident) * tile.threads / 128)
    rate = gpu.fp32 / gpu.sms * tile.reach * busy
    rate *= 1 if p.b.mode(p.n, p.k) == WIDE else NARROWED
    work = most * 2 * tile.bm * tile.bn * each / rate + cdiv(most, tile.resident) * tile.over
    time = gpu.launch + max(work, moved / gpu.bandwidth)
    if splits > 1:
        time += 2e-6 + splits * tile.join * 4 * tile.bm * tile.bn
    return time


def _few(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates for up to FEW rows of A."""
    moved = 4 * p.batch * (p.k * p.n + p.m * p.k + p.m * p.n)
    turned = p.b.k == 1 or p.k == 1
    if turned and p.a.k != 1 and p.k > 1:
        return []
    wide = p.b.aligned and p.b.batch % 4 == 0 and (
        p.b.along % 4 == 0 and p.a.aligned and p.a.along % 4 == 0 and p.a.batch % 4 == 0 if turned
        else p.b.k % 4 == 0 and p.n % 4 == 0
    )  # fmt: skip
    width = 4 if wide else 1
    lines = cdiv(p.n, 8) if turned else cdiv(p.n, 128 * width)
    least = 512 if turned else 64
    wanted = max(1, cdiv(8 * gpu.sms, lines * p.batch))
    splits = max(1, min(wanted, cdiv(p.k, least), 65535))
    each = cdiv(cdiv(max(p.k, 1), splits), 128 if turned else 4) * (128 if turned else 4)
    splits = max(1, cdiv(p.k, each))
    cost = gpu.launch * (1 if splits == 1 else 2) + 1.1 * moved / gpu.bandwidth + p.m * 1e-6
    cost += 8 * splits * p.m * p.n * p.batch / gpu.bandwidth if splits > 1 else 0
    name = ("dots" if turned else "columns") + (f", K in {splits}" if splits > 1 else "")
    why = f"{p.m} rows only: memory is the limit, {moved:,} bytes"
    build = functools.partial(_plan_few, p, turned, width, lines, splits, each)
    return [Candidate(name, cost, why, build)]


# ---- plans -------------------------------------------------------------------------------------
def _plan_tiled(p: Product, tile: Tile, splits: int, each: int, a_mode: int, b_mode: int) -> Plan:
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    split = str(splits > 1).lower()
    shape = ", ".join(map(str, (*tile[:9], a_mode, b_mode, p.activation, split)))
    kernel = source.kernel("matmul.cu", f"tiled<{shape}>")
    count = tiles[0] * tiles[1]
    scratch: tuple[Buffer, ...] = ()
    parts: tuple[Argument, ...] = (None, None)
    if splits > 1:
        size = p.batch * count * splits * tile.bm * tile.bn
        scratch = (Buffer((size,), torch.float32),)
        parts = (p.scratch_number(), Counters())
    problem = p.problem(splits, each, tiles, p.a.pitch(a_mode), p.b.pitch(b_mode))
    args = (p.a.pointer, p.b.pointer, p.bias[0] if p.bias else None, p.c, *parts, problem)
    grid = (count * splits, min(p.batch, 32768), cdiv(p.batch, 32768))
    step = Step(kernel, grid, (tile.threads,), args, tile.shared(a_mode, b_mode))
    return Plan((*p.before, step), (p.out,), (*p.scratch, *scratch))


def _plan_few(p: Product, turned: bool, width: int, lines: int, splits: int, each: int) -> Plan:
    rows = 1 if p.m == 1 else 2 if p.m == 2 else 4 if p.m <= 4 else FEW
    name = f"{'dots' if turned else 'columns'}<{rows}, {width}, {p.activation}>"
    kernel = source.kernel("matmul.cu", name)
    problem = p.problem(splits, each, (1, 1), p.a.along, p.b.along if turned else p.b.k)
    bias: Argument = p.bias[0] if p.bias else None
    parts = p.scratch_number() if splits > 1 else None
    args = (p.a.pointer, p.b.pointer, bias, p.c, parts, problem)
    threads = 256 if turned else 128
    steps = [*p.before, Step(kernel, (lines, splits, p.batch), (threads,), args)]
    scratch: tuple[Buffer, ...] = ()
    if splits > 1:
        scratch = (Buffer((p.batch * splits * p.m * p.n,), torch.float32),)
        add = source.kernel("matmul.cu", f"add_parts<{p.activation}>")
        grid = (cdiv(p.m * p.n, 256), 1, p.batch)
        steps.append(Step(add, grid, (256,), (bias, p.c, parts, problem)))
    return Plan(tuple(steps), (p.out,), (*p.scratch, *scratch))


# ---- definitions -------------------------------------------------------------------------------
def _shape(a: Any, b: Any) -> tuple[Any, ...]:
    """The shape of a product, as torch.matmul defines it."""
    if a.dim() > 1 and b.dim() > 1:
        lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return (*lead, a.shape[-2], b.shape[-1])
    return (
        *(a.shape[:-1] if a.dim() > 1 else ()),
        *((*b.shape[:-2], b.shape[-1]) if b.dim() > 1 else ()),
    )


def _check(name: str, a: Any, b: Any) -> None:
    for which, x in (("a", a), ("b", b)):
        if x.dtype is not torch.float32:
            raise ArgumentError(
                f"weft.ops.{name}: '{which}' has a dtype that no kernel takes",
                got=str(x.dtype), allowed="float32", next=f"convert it: {which}.float()",
            )  # fmt: skip
    inner = (a.shape[-1] if a.dim() else None, b.shape[-2:][0] if b.dim() else None)
    try:
        fits = inner[0] is not None and inner[0] == inner[1]
        torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except RuntimeError:
        fits = False
    if not fits:
        raise ArgumentError(
            f"weft.ops.{name}: the shapes do not fit",
            got=f"a {list(a.shape)}, b {list(b.shape)}",
            allowed="a[…, M, K] and b[…, K, N] with batches that broadcast; a vector is K long",
        )


def _check_addmm(bias: Any, a: Any, b: Any, activation: str) -> None:
    _check("addmm", a, b)
    want = (a.shape[0], b.shape[1]) if a.dim() == b.dim() == 2 else ()
    wrong = not want or bias.dim() > 2 or bias.dtype is not torch.float32
    have = (1,) * (2 - bias.dim()) + tuple(bias.shape)
    if wrong or any(h not in (1, w) for h, w in zip(have, want, strict=True)):
        raise ArgumentError(
            "weft.ops.addmm: the shapes do not fit",
            got=f"bias {list(bias.shape)} {bias.dtype}, a {list(a.shape)}, b {list(b.shape)}",
            allowed="a[M, K], b[K, N] and a float32 bias that broadcasts to [M, N]",
        )
    if activation not in ACTIVATIONS:
        raise ArgumentError(
            "weft.ops.addmm: there is no such activation",
            got=repr(activation), allowed=", ".join(map(repr, ACTIVATIONS)),
        )  # fmt: skip


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])


def _backward(ctx: Any, grad: Any) -> Any:
    a, b = ctx.saved_tensors
    product = torch.ops.weft.matmul
    left = a if a.dim() > 1 else a.unsqueeze(0)
    right = b if b.dim() > 1 else b.unsqueeze(1)
    g = grad if a.dim() > 1 else grad.unsqueeze(-1 if b.dim() == 1 else -2)
    g = g if b.dim() > 1 else g.unsqueeze(-1)
    wants_a, wants_b = ctx.needs_input_grad[:2]
    da = product(g, right.transpose(-1, -2)).sum_to_size(left.shape) if wants_a else None
    db = product(left.transpose(-1, -2), g).sum_to_size(right.shape) if wants_b else None
    return (
        None if da is None else da.reshape(a.shape),
        None if db is None else db.reshape(b.shape),
    )


def _setup_addmm(ctx: Any, inputs: Any, output: Any) -> None:
    bias, a, b, ctx.activation = inputs
    ctx.save_for_backward(bias, a, b, output)


def _derived(name: str, before: Any, grad: Any) -> Any:
    """The gradient of an activation's input, by torch's own formulas."""
    with torch.enable_grad():
        x = before.detach().requires_grad_()
        y = {
            "": lambda v: v, "relu": torch.relu, "silu": torch.nn.functional.silu,
            "gelu": torch.nn.functional.gelu,
            "gelu_tanh": lambda v: torch.nn.functional.gelu(v, approximate="tanh"),
        }[name](x)  # fmt: skip
    return torch.autograd.grad(y, x, grad)[0]


def _backward_addmm(ctx: Any, grad: Any) -> Any:
    bias, a, b, out = ctx.saved_tensors
    product = torch.ops.weft.matmul
    if ctx.activation == "relu":
        grad = grad * (out > 0)
    elif ctx.activation:
        grad = _derived(ctx.activation, product(a, b) + bias, grad)
    wants = ctx.needs_input_grad
    return (
        grad.sum_to_size(bias.shape) if wants[0] else None,
        product(grad, b.transpose(-1, -2)) if wants[1] else None,
        product(a.transpose(-1, -2), grad) if wants[2] else None,
        None,
    )


DEFINITIONS = (
    Definition(
        name="matmul",
        schema="(Tensor a, Tensor b) -> Tensor",
        doc="The matrix product of a and b, as torch.matmul: vectors, matrices and batches.",
        fake=lambda a, b: a.new_empty(_shape(a, b)),
        candidates=_candidates,
        check=functools.partial(_check, "matmul"),
        setup=_setup,
        backward=_backward,
    ),
    Definition(
        name="addmm",
        schema='(Tensor bias, Tensor a, Tensor b, str activation="") -> Tensor',
        doc="activation(a b + bias): relu, gelu, gelu_tanh, silu, or none.",
        fake=lambda bias, a, b, activation="": a.new_empty(_shape(a, b)),
        candidates=_candidates,
        check=_check_addmm,
        setup=_setup_addmm,
        backward=_backward_addmm,
    ),
)
