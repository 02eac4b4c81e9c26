"""The configuration of the kernel of a decoding step, and the parts of its shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from weft.kernels import Kernel, cdiv
from weft.llm.config import DecoderConfig
from weft.llm.fused.model import PIECE, ROWS, SCALED, WORDS, Form
from weft.llm.fused.structs import DecodeStep
from weft.ops.core import source
from weft.ops.core.target import Target

WARPS, SHARED_SUMS = 8, 4
"""Warps of problem.cuh that compute, and units whose sums wait."""
MOST_TEXTS = {16: 2, 8: 1, 4: 2}
"""The most texts by bits of a weight: with more, single kernels were as fast or faster on an H200
(benchmarks/records/decoding.jsonl)."""
SIZES = (64, 128)
"""Elements of a head."""
MOST_SHARING = 8
"""The most heads of queries that share keys: their sums are in registers."""
WIDTH = 8192
"""The most elements of a token: they are a stage, and registers of all threads."""
PLANES = 3
"""Bytes of a token's elements for weights that are integers."""
LEAST_STAGES, MOST_STAGES = 4, 16
STATIC = 1024
"""Bytes of shared memory for barriers, and what the device keeps of a block's."""
LEAST_KEYS = 32
"""Keys that are worth a block."""
MAGIC = {torch.float16: 0x64006400, torch.bfloat16: 0x43004300}
"""MAGIC of weft/dequantise.cuh."""


@dataclass(frozen=True)
class DecodePlan:
    """A kernel, its launch, and the sizes of the memory that it needs."""

    kernel: Kernel
    blocks: int
    shared: int
    struct: DecodeStep
    partial: int


def fits(c: DecoderConfig, bits: int, rows: int, dtype: torch.dtype, target: Target) -> bool:
    """True if the kernel takes models of these sizes, with weights of so many bits."""
    return (
        not c.is_gpt2
        and target.capability[0] == 9
        and dtype in MAGIC
        and rows <= MOST_TEXTS[bits]
        and c.head_size in SIZES
        and c.heads // c.kv_heads <= MOST_SHARING
        and c.width <= WIDTH
        and c.width % 8 == c.hidden % 8 == 0
    )


def plan(
    c: DecoderConfig,
    form: Form,
    rows: int,
    capacity: int,
    dtype: torch.dtype,
    target: Target,
    has_head: bool,
) -> DecodePlan | None:
    """Plan the step; None if its tokens leave no room for weights in shared memory."""
    sharing, inner = c.heads // c.kv_heads, c.heads * c.head_size
    deep = PIECE * 8 // form.bits
    deepest = deep * cdiv(max(c.width, inner, c.hidden), deep)
    scales = ROWS * 4 * (deep // SCALED if form.grouped else form.bits < 16)
    stage = ROWS * PIECE + 1024 * cdiv(scales, 1024)
    fresh = 4 * sharing * WARPS * (c.head_size + 2) + 2 * (sharing + 2) * c.head_size
    columns = rows * (PLANES if form.is_integer else 1)
    inputs = _rounded(max((columns if form.is_integer else 2 * rows) * deepest, fresh))
    sums = _rounded(4 * columns * cdiv(deepest, 128)) if form.bits == 4 else 0
    shares = SHARED_SUMS * WARPS * ROWS * columns * 4
    angles = _rounded(16 + 4 * rows * (c.head_size + 1))
    rest = inputs + sums + shares + angles + (c.depth + 1) * WORDS * 8
    stages = min(MOST_STAGES, (target.shared_per_block - STATIC - rest) // stage)
    if stages < LEAST_STAGES:
        return None
    packed = inner + 2 * c.kv_heads * c.head_size
    units = max(packed // ROWS, c.hidden // (ROWS // 2), c.vocabulary // ROWS * has_head)
    heads = rows * c.kv_heads
    blocks = max(1, min(target.sms, max(units, heads)))
    splits = max(1, min(blocks // heads, capacity // LEAST_KEYS))
    at = stages * stage
    struct = DecodeStep(
        c.depth, 4 * c.depth + has_head, c.width, c.hidden, c.heads, c.kv_heads, c.vocabulary,
        capacity, c.head_size // 2, splits, MAGIC[dtype], c.eps,
        math.log2(math.e) / math.sqrt(c.head_size), at, at + inputs, at + inputs + sums,
        at + inputs + sums + shares, at + inputs + sums + shares + angles,
    )  # fmt: skip
    name = source.template(
        "decode", source.ctype(dtype), form.bits, f"Weights::{form.name}", form.grouped, rows,
        c.head_size, sharing, stages,
    )  # fmt: skip
    kernel = source.kernel("../../llm/fused/decode.cu", name, **DecodeStep.define())
    partial = heads * splits * sharing * (c.head_size + 2)
    return DecodePlan(kernel, blocks, at + rest, struct, partial)


def _rounded(size: int) -> int:
    return cdiv(size, 128) * 128
