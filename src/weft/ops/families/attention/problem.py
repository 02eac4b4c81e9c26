"""Describe a call of attention for the kernels: strided tensors, a mask, ragged lengths."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from weft.ops.core.choose import Request
from weft.ops.core.layouts import broadcast, dense_strides, merged
from weft.ops.core.plan import Argument, Buffer, Layout, Pointer, Step, Word
from weft.ops.families.attention.padding import Padding, needs_padding
from weft.ops.families.elementwise.copies import contiguous

FREE, BOOLEAN, ADDED, ADDED_FLOAT, UNIFORM, WINDOW, EXPRESSION = range(7)
"""Kinds of mask, as softmax.cuh numbers them."""
HEADS = (16, 32, 48, 64, 80, 96, 128, 192, 256)
"""Head sizes of the kernels on tensor cores; others are padded in shared memory."""
FLOAT_HEADS = (32, 64, 96, 128, 192, 256)
UNLIMITED = 1 << 30
"""Keys before or after a query that it sees where a window does not limit them."""
READ_ONCE = 64
"""Up to so many queries or keys, kernels for float32 read an operand about once: a copy of it with
padded rows takes longer than to read its rows in single elements."""


class Expression(NamedTuple):
    """Expressions of the caller: macros of the kernels of a call, and their last arguments."""

    defines: tuple[tuple[str, str], ...] = ()
    arguments: tuple[Argument, ...] = ()

    @property
    def macros(self) -> dict[str, str]:
        """The macros by name."""
        return dict(self.defines)


class Operand(NamedTuple):
    """A tensor as [batch, heads, rows, elements].

    strides  of the first three; the elements of a row are contiguous
    """

    pointer: Pointer
    strides: tuple[int, int, int]


class AttentionOperands:
    """Make operands of a request's tensors; add copies of those that no kernel can read.

    elementwise  True if an operand's rows of float32 are read in single elements
    """

    def __init__(self, request: Request, outputs: int, ragged: bool) -> None:
        self.request = request
        self.ragged = ragged
        self.first = len(request.inputs) + outputs
        self.scratch: list[Buffer] = []
        self.cost = 0.0
        self.elementwise = False
        self._copies: list[Step] = []
        self._padding = Padding()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The launches that make the copies."""
        return (*self._copies, *self._padding.steps)

    def rows(self, number: int, p: Problem) -> Operand:
        """The operand of an input of a problem."""
        x = self.request.inputs[number]
        assert x is not None
        if len(x.shape) == 2:
            x = x._replace(shape=(1, *x.shape), strides=(0, *x.strides))
        elif self.ragged:  # [rows, heads, elements]
            x = x._replace(
                shape=(x.shape[1], x.shape[0], x.shape[2]),
                strides=(x.strides[1], x.strides[0], x.strides[2]),
            )
        once = p.dtype is torch.float32 and min(p.rows, p.keys) <= READ_ONCE
        return self._rows(x, Pointer(number), (*p.lead, *x.shape[-3:]), once)

    def _rows(self, x: Layout, pointer: Pointer, shape: tuple[int, ...], once: bool) -> Operand:
        strides = broadcast(x, shape)
        walk = merged(shape[:-3], [strides[:-3]])
        if len(walk.sizes) > 1 or (shape[-1] > 1 and strides[-1] != 1):
            return self._rows(*self._copied(x, pointer, shape), shape, once)
        first = (walk.strides[0][0], strides[-3], strides[-2])
        sizes = (walk.sizes[0], *shape[-3:])
        if not needs_padding(x, sizes, first):
            return Operand(pointer, first)
        if once:
            self.elementwise = True
            return Operand(pointer, first)
        end = Pointer(self.first + len(self.scratch))
        buffer, strides = self._padding.add(pointer, end, x, sizes, first)
        self.scratch.append(buffer)
        gpu = self.request.target
        self.cost += gpu.launch / 2 + 2 * x.itemsize * math.prod(buffer.shape) / gpu.bandwidth
        return Operand(end, strides)

    def mask(self, number: int, shape: tuple[int, ...]) -> tuple[Pointer, tuple[int, ...]]:
        """A mask that broadcasts to [..., heads, rows, keys], and its four strides."""
        x = self.request.inputs[number]
        assert x is not None
        return self._mask(x, Pointer(number), shape)

    def _mask(
        self, x: Layout, pointer: Pointer, shape: tuple[int, ...]
    ) -> tuple[Pointer, tuple[int, ...]]:
        strides = broadcast(x, shape)
        walk = merged(shape[:-3], [strides[:-3]])
        if len(walk.sizes) > 1:
            return self._mask(*self._copied(x, pointer, shape), shape)
        return pointer, (walk.strides[0][0], *strides[-3:])

    def _copied(self, x: Layout, start: Pointer, shape: tuple[int, ...]) -> tuple[Layout, Pointer]:
        end = Pointer(self.first + len(self.scratch))
        seen = Layout(x.dtype, shape, broadcast(x, shape), x.aligned)
        copy = contiguous(seen, start, end, self.request.target)
        buffer = Buffer(shape, x.dtype)
        self._copies += copy.steps
        self.cost += copy.cost
        self.scratch.append(buffer)
        return Layout(x.dtype, shape, buffer.steps, 16), end


@dataclass(frozen=True)
class Problem:
    """The sizes and options of a call, and its results.

    starts  the cumulative lengths of queries and keys of a ragged call; the lengths of keys alone
            where they are in pages
    drop    the probability of dropout
    random  seed and offset of its numbers: the kernels' last arguments
    lead    the batch dimensions
    out     the result
    window  keys that a query sees before and after its own one; a causal mask leaves none after it
    lse     the logarithms of the sums, whose strides as [batch, heads, rows] are `lse_strides`
    """

    dtype: torch.dtype
    batch: int
    heads: int
    group: int
    rows: int
    keys: int
    depth: int
    width: int
    causal: bool
    scale: float
    mask: int
    mask_pointer: Argument
    mask_strides: tuple[int, ...]
    starts: tuple[Argument, Argument]
    drop: float
    random: tuple[Argument, Argument, Argument]
    lead: tuple[int, ...]
    out: Buffer
    lse: Buffer
    lse_strides: tuple[int, int, int]
    window: tuple[int, int] = (UNLIMITED, UNLIMITED)

    @property
    def head(self) -> int:
        """The head size of the kernels."""
        sizes = FLOAT_HEADS if self.dtype is torch.float32 else HEADS
        return next(h for h in sizes if h >= max(self.depth, self.width))

    @property
    def seen_keys(self) -> int:
        """Keys that some query may see: a causal mask that starts at the first key hides others."""
        return min(self.keys, self.rows) if self.causal and self.starts[1] is None else self.keys

    @property
    def share(self) -> float:
        """The share of the scores that a causal mask and a window leave, for cost models."""
        if not self.rows or not self.keys:
            return 1.0
        seen = min(1.0, self.reach / self.keys)
        if not self.causal:
            return seen
        less, more = sorted((self.rows, self.keys))
        # Past the triangle, queries see all keys; those of ragged batches see all keys before it.
        whole = (self.starts[1] is None) == (self.rows > self.keys)
        return min(seen, (less / 2 + (more - less) * whole) / more)

    @property
    def reach(self) -> int:
        """Keys that a query sees at most, by its window."""
        return min(UNLIMITED, sum(self.window) + 1)

    @property
    def paged(self) -> bool:
        """True if keys and values are in pages."""
        return self.starts[0] is None and self.starts[1] is not None

    @property
    def windowed(self) -> bool:
        """True if a window hides keys that a causal mask leaves."""
        return self.window[0] < UNLIMITED or 0 < self.window[1] < UNLIMITED

    def strides(self, made: Buffer) -> tuple[int, int, int]:
        """Strides of a result as [batch, heads, rows]."""
        if self.starts[0] is not None:
            return 0, made.steps[1], made.steps[0]
        # More than one batch dimension is always contiguous.
        batch = made.steps[len(self.lead) - 1] if self.lead else 0
        return batch, made.steps[-3] if len(made.shape) > 2 else 0, made.steps[-2]

    def packed(
        self, operands: Sequence[Sequence[int]], pack: int = 1, parts: int = 1, at_once: int = 1,
        elementwise: bool = False,
    ) -> bytes:  # fmt: skip
        """The struct of problem.cuh; `operands` are the strides of q, k, v and o."""
        strides = [s for of in (*operands, self.lse_strides, self.mask_strides) for s in of]
        keep = round((1 - self.drop) * 65536)
        return struct.pack(
            "<19q11ifIfi2i4x", *strides, self.batch, self.heads, self.group, self.rows, self.keys,
            self.depth, self.width, self.causal, pack, parts, at_once,
            self.scale * math.log2(math.e), keep, 1 / (1 - self.drop) if keep else 0.0,
            elementwise, *self.window,
        )  # fmt: skip

    @property
    def drops(self) -> str:
        """True for kernels that drop weights, as C++ writes it."""
        return str(self.drop > 0).lower()


def problem_of(
    operands: AttentionOperands, numbers: Sequence[int], mask: int | None,
    starts: tuple[int, int] | None, state: int | None = None,
) -> Problem:  # fmt: skip
    """The problem of a request, from the numbers of query, key, value, mask, lengths and state.

    `state` is the tensor that a call with dropout may have its seed and offset in.
    """
    options = operands.request.options
    query, key, value = (_shape(operands.request.inputs[n]) for n in numbers)
    dtype = operands.request.first.dtype
    q = operands.request.inputs[numbers[0]]
    assert q is not None
    scale = options["scale"]
    scale = 1 / math.sqrt(query[-1]) if scale is None else scale
    window = _window(options)
    if starts is not None:
        heads, rows, keys = query[1], options["max_q"], options["max_k"]
        batch = _shape(operands.request.inputs[starts[0]])[0] - 1
        group = heads // key[1]
        lead: tuple[int, ...] = ()
        out = Buffer((query[0], heads, value[-1]), dtype)
        lse, lse_strides = Buffer((heads, query[0]), torch.float32), (0, query[0], 1)
    else:
        lead = tuple(torch.broadcast_shapes(query[:-3], key[:-3], value[:-3]))
        heads, rows, keys = max([*query[-3:-2], *key[-3:-2], 1]), query[-2], key[-2]
        batch = math.prod(lead)
        group = heads // key[-3] if options["enable_gqa"] and len(key) > 2 else 1
        shape = result_shape(query, key, value)
        out = Buffer(shape, dtype, strides=result_strides(shape, q.shape, q.strides))
        lse, lse_strides = Buffer(shape[:-1], torch.float32), (heads * rows, rows, 1)
    given = None if mask is None else operands.request.inputs[mask]
    pointer: Argument = None
    strides: tuple[int, ...] = (0, 0, 0, 0)
    if given is not None and mask is not None:
        pointer, strides = operands.mask(mask, (*lead, heads, rows, keys))
    return Problem(
        dtype, batch, heads, group, rows, keys, query[-1], value[-1], window[1] == 0, scale,
        _mask_kind(given, scale, window), pointer, strides,
        (None, None) if starts is None else (Pointer(starts[0]), Pointer(starts[1])),
        options.get("dropout_p", 0.0), _random(operands.request, state), lead, out, lse,
        lse_strides, window,
    )  # fmt: skip


def _window(options: Mapping[str, Any]) -> tuple[int, int]:
    """Keys before and after a query that it sees."""
    left, right = options.get("window") or (-1, -1)
    left = UNLIMITED if left < 0 else min(left, UNLIMITED)
    right = UNLIMITED if right < 0 else min(right, UNLIMITED)
    return left, 0 if options["is_causal"] else right


def _random(request: Request, state: int | None) -> tuple[Argument, Argument, Argument]:
    """The arguments of struct Random: seed and offset are the op's varying arguments."""
    if state is None:
        return None, 0, 0
    return None if request.inputs[state] is None else Pointer(state), Word(0), Word(1)


def _shape(x: Layout | None) -> tuple[int, ...]:
    assert x is not None
    return x.shape


def result_shape(query: Sequence[Any], key: Sequence[Any], value: Sequence[Any]) -> tuple[Any, ...]:
    """The shape of attention's result. Heads of keys are repeated or shared."""
    lead = torch.broadcast_shapes(query[:-3], key[:-3], value[:-3])
    heads = (max([*query[-3:-2], *key[-3:-2]]),) if max(len(query), len(key)) > 2 else ()
    return (*lead, *heads, query[-2], value[-1])


def gradient_shapes(
    query: Sequence[Any], key: Sequence[Any], value: Sequence[Any], shared: bool
) -> tuple[tuple[Any, ...], ...]:
    """Shapes of the gradients, before those of repeated batches and heads are summed."""
    *lead, rows, _ = result_shape(query, key, value)
    of_keys = [*lead[:-1], key[-3]] if shared and len(key) > 2 else lead
    return (
        (*lead, rows, query[-1]),
        (*of_keys, key[-2], key[-1]),
        (*of_keys, value[-2], value[-1]),
    )


def result_strides(
    shape: Sequence[Any], query: Sequence[Any], strides: Sequence[Any]
) -> tuple[Any, ...]:
    """Strides of the result: dense, with the memory order of a four-dimensional query.

    A model that keeps [batch, sequence, heads, elements] thus gets its result in this order.
    """
    last = len(shape) - 1
    order = list(range(last))
    if last == 3 and tuple(query[:-1]) == tuple(shape[:-1]) and 0 not in strides[:-1]:
        order.sort(key=lambda d: (-strides[d], d))
    return dense_strides(shape, (*order, last))


def _mask_kind(mask: Layout | None, scale: float, window: tuple[int, int]) -> int:
    if mask is None and scale > 0:
        left, right = window
        return WINDOW if left < UNLIMITED or 0 < right < UNLIMITED else FREE
    if mask is None:
        return UNIFORM
    if mask.dtype == torch.bool:
        return BOOLEAN
    return ADDED_FLOAT if mask.dtype == torch.float32 else ADDED
