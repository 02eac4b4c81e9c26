"""Linear layers in the public layouts of quantised checkpoints, written number by number.

Each writer draws a weight, and gives its tensors by their last names and the weight in float32.
They follow the documented layouts and share no code with weft.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import draw

Layer = tuple[dict[str, Any], Any]
"""The tensors of a layer, and its weight."""
Writer = Callable[[draw.Draw, int, int], Layer]


@dataclass(frozen=True)
class Layout:
    """A layout of folders: what config.json says, and the writer of a layer.

    entry  for torchao: the text of a parameter in the header, for a layer of n x k
    """

    facts: dict[str, Any]
    write: Writer
    entry: Callable[[int, int], str] | None = None
    is_dynamic: bool = field(default=False)


def words(q: Any, bits: int, order: Sequence[int] | None = None) -> Any:
    """Pack the last dimension into int32; place i of a word holds number order[i] of its own."""
    each = 32 // bits
    places = list(range(each)) if order is None else order
    numbers = q.numpy().astype(np.uint32)
    numbers = np.pad(numbers, [(0, 0), (0, -numbers.shape[1] % each)])
    made = np.zeros((numbers.shape[0], numbers.shape[1] // each), np.uint32)
    for w in range(made.shape[1]):
        for i, at in enumerate(places):
            made[:, w] |= numbers[:, w * each + at] << np.uint32(bits * i)
    return torch.from_numpy(made.view(np.int32))


def scales(stream: draw.Draw, n: int, groups: int, bits: int, dtype: Any) -> Any:
    """Scales of a size that makes weights of about 0.1, exact in the dtype."""
    return ((0.5 + stream.uniform(n, groups)) * 0.35 / 2**bits).to(dtype)


def value(q: Any, zero: Any, scale: Any, index: Any) -> Any:
    """(q - zero) * scale, for the group of each column."""
    return (q.float() - zero.float()[:, index]) * scale.float()[:, index]


def groups_of(k: int, group: int) -> Any:
    return torch.arange(k) // (k if group == -1 else group)


# ---- GPTQ and AWQ ------------------------------------------------------------------------------
def gptq(bits: int, group: int, form: str = "gptq", index: str = "", zeros: bool = True) -> Layout:
    """index: "" for no g_idx, "in order", "shuffled", or "alike" for one order in all layers."""
    missing = 1 if form == "gptq" else 0

    def write(stream: draw.Draw, n: int, k: int) -> Layer:
        high, size = 2**bits, k if group == -1 else group
        g = groups_of(k, group)
        if index == "shuffled":
            g = g[stream.permutation(k)]
        if index == "alike":
            g = g[draw.seeded(k).permutation(k)]
        q = stream.integers(0, high, (n, k))
        zero = stream.integers(0, high, (n, k // size)) if zeros else high // 2 * one(n, k // size)
        scale = scales(stream, n, k // size, bits, torch.float16)
        made = {
            "qweight": words(q, bits).T.contiguous(),
            "qzeros": words(((zero - missing) % high).T.contiguous(), bits),
            "scales": scale.T.contiguous(),
        }
        # Rows of the stored matrix are columns of the weight: words hold neighbours of a column.
        if index:
            made["g_idx"] = g.to(torch.int32)
        return made, value(q, zero, scale, g)

    facts = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": not zeros,
             "desc_act": index in ("shuffled", "alike"), "checkpoint_format": form}  # fmt: skip
    return Layout(facts, write)


def one(n: int, m: int) -> Any:
    return torch.ones(n, m, dtype=torch.int64)


AWQ_PLACES = (0, 2, 4, 6, 1, 3, 5, 7)


def awq(group: int) -> Layout:
    def write(stream: draw.Draw, n: int, k: int) -> Layer:
        size = k if group == -1 else group
        q, zero = (stream.integers(0, 16, (n, m)) for m in (k, k // size))
        scale = scales(stream, n, k // size, 4, torch.float16)
        made = {
            "qweight": words(q.T.contiguous(), 4, AWQ_PLACES),
            "qzeros": words(zero.T.contiguous(), 4, AWQ_PLACES),
            "scales": scale.T.contiguous(),
        }
        return made, value(q, zero, scale, groups_of(k, group))

    facts = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm"}
    return Layout({**facts, "zero_point": True}, write)


# ---- compressed-tensors --------------------------------------------------------------------------
TOKENS = {"num_bits": 8, "strategy": "token", "dynamic": True, "symmetric": True}


def compressed(
    form: str, bits: int, group: int | str, zeros: bool = False, inputs: Any = None,
    index: bool = False,
) -> Layout:  # fmt: skip
    """group: a number, "channel" or "tensor"."""

    def write(stream: draw.Draw, n: int, k: int) -> Layer:
        size = group if isinstance(group, int) else k
        rows = 1 if group == "tensor" else n
        g = groups_of(k, size)
        if index:
            g = g[draw.seeded(k).permutation(k)]
        scale = scales(stream, rows, k // size, bits, torch.bfloat16)
        if form == "float-quantized":
            q = (stream.normal(n, k) * 60).to(torch.float8_e4m3fn)
            scale = (scale.float() / 4).to(torch.bfloat16)
            made = {"weight": q, "weight_scale": scale if group != "tensor" else scale.reshape(1)}
            return made, value(q, torch.zeros(rows, k // size), scale, g)
        low = -(2 ** (bits - 1))
        q = stream.integers(low, -low, (n, k))
        zero = stream.integers(low, -low, (rows, k // size)) * int(zeros)
        made = {"weight_scale": scale}
        if form == "pack-quantized":
            made |= {"weight_packed": words(q - low, bits), "weight_shape": torch.tensor([n, k])}
            if zeros:
                made["weight_zero_point"] = words((zero - low).T.contiguous(), bits).T
        else:
            made["weight"] = q.to(torch.int8)
            if zeros:
                made["weight_zero_point"] = zero.to(torch.int8)
        if index:
            made["weight_g_idx"] = g.to(torch.int32)
        return made, value(q, zero, scale, g)

    scheme = {"targets": ["Linear"], "weights": {"num_bits": bits}, "input_activations": inputs}
    facts = {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
             "config_groups": {"group_0": scheme}, "kv_cache_scheme": None}  # fmt: skip
    return Layout(facts, write, is_dynamic=inputs is not None)


# ---- float8 in blocks ----------------------------------------------------------------------------
def float8(block: tuple[int, int] | None, dtype: Any = torch.float32) -> Layout:
    def write(stream: draw.Draw, n: int, k: int) -> Layer:
        r, c = block or (n, k)
        q = (stream.normal(n, k) * 60).to(torch.float8_e4m3fn)
        scale = scales(stream, -(-n // r), -(-k // c), 10, dtype)
        spread = scale.float()[torch.arange(n) // r][:, torch.arange(k) // c]
        stored = scale if block else scale.reshape(())
        return {"weight": q, "weight_scale_inv": stored}, q.float() * spread

    facts = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"}
    return Layout({**facts, "weight_block_size": list(block) if block else None}, write)


# ---- torchao -------------------------------------------------------------------------------------
def dtype_entry(name: str) -> dict[str, str]:
    return {"_type": "torch.dtype", "_data": name}


ROWS = {
    "_type": "QuantizeTensorToInt8Kwargs",
    "_data": {
        "granularity": {"_type": "PerRow", "_data": {"dim": -1}},
        "mapping_type": {"_type": "MappingType", "_data": "SYMMETRIC"},
    },
}


def torchao(kind: str, group: int | str, inputs: Any = None) -> Layout:
    """group: columns, "channel" or "tensor"."""

    def block(n: int, k: int) -> list[int]:
        words: dict[Any, list[Any]] = {"channel": [1, k], "tensor": [n, k]}
        return words.get(group, [1, group])

    def entry(n: int, k: int) -> str:
        data: dict[str, Any] = {"block_size": block(n, k)}
        if kind in ("Int4Tensor", "Int4TilePackedTo4dTensor"):
            data |= {"shape": [n, k]}
        else:
            data |= {"dtype": dtype_entry("float32"), "act_quant_kwargs": inputs}
        if kind.startswith("Intx"):
            data["target_dtype"] = dtype_entry("int4")
        return json.dumps({"_type": kind, "_data": data, "_tensor_data_names": []})

    def write(stream: draw.Draw, n: int, k: int) -> Layer:
        r, c = block(n, k)
        made, weight = AO[kind](stream, n, k, n // r, k // c, groups_of(k, c))
        return {f"_weight_{name}": x for name, x in made.items()}, weight

    return Layout({"quant_method": "torchao"}, write, entry, inputs is not None)


def _integers(bits: int) -> Callable[..., Layer]:
    def write(stream: draw.Draw, n: int, k: int, a: int, b: int, g: Any) -> Layer:
        high = 2 ** (bits - 1)
        q = stream.integers(-high, high, (n, k))
        zero = stream.integers(-high, high, (a, b)) if b > 1 else torch.zeros(a, b)
        scale = scales(stream, a, b, bits, torch.float32)
        made = {"qdata": q.to(torch.int8), "scale": scale, "zero_point": zero.to(torch.int8)}
        return made, value(q, zero, scale, g)

    return write


def _float8(stream: draw.Draw, n: int, k: int, a: int, b: int, g: Any) -> Layer:
    q = (stream.normal(n, k) * 60).to(torch.float8_e4m3fn)
    scale = scales(stream, a, b, 10, torch.float32)
    return {"qdata": q, "scale": scale}, value(q, torch.zeros(a, b), scale, g)


def _int4(stream: draw.Draw, n: int, k: int, a: int, b: int, g: Any) -> Layer:
    """A byte has the even column in its low four bits; zeros are values."""
    q = stream.integers(-8, 8, (n, k))
    scale, zero = (scales(stream, n, b, 4, torch.bfloat16) for _ in range(2))
    stored = (q[:, ::2] & 15) | ((q[:, 1::2] & 15) << 4)
    made = {"qdata": stored.to(torch.uint8).view(torch.int8), "scale": scale.T.contiguous(),
            "zero_point": zero.T.contiguous()}  # fmt: skip
    return made, q * scale.float()[:, g] + zero.float()[:, g]


def _tile_packed(stream: draw.Draw, n: int, k: int, a: int, b: int, g: Any) -> Layer:
    """As the kernel that writes it: each lane gathers eight numbers of two tiles of its row."""
    q = torch.zeros(-(-n // 8) * 8, -(-k // 1024) * 1024, dtype=torch.int64)
    q[:n, :k] = stream.integers(0, 16, (n, k))
    columns = q.shape[1] // 128
    both = torch.zeros(q.shape[1] // (k // b), q.shape[0], 2, dtype=torch.bfloat16)
    scale, zero = (scales(stream, n, b, 4, torch.bfloat16) for _ in range(2))
    both[:, :, 0] = 1
    both[:b, :n, 0], both[:b, :n, 1] = scale.T, zero.T
    made = np.zeros((q.shape[0] // 8, columns, 32, 4), np.uint32)
    numbers = q.numpy().astype(np.uint32)
    for tile in range(made.shape[0]):
        for outer in range(columns):
            for lane in range(32):
                for pair in range(4):
                    row, base = tile * 8 + lane // 4, outer * 128 + pair * 32
                    starts = [base + 8 * i + 2 * (lane % 4) for i in range(4)]
                    held = [numbers[row, s + odd] for odd in (0, 1) for s in starts]
                    for i, number in enumerate(held):
                        made[tile, outer, lane, pair] |= number << np.uint32(4 * i)
    weight = (q[:n, :k] - 8) * scale.float()[:, g] + zero.float()[:, g]
    return {"qdata": torch.from_numpy(made.view(np.int32)), "scale_and_zero": both}, weight


AO: Mapping[str, Callable[..., Layer]] = {
    "Int8Tensor": _integers(8),
    "IntxUnpackedToInt8Tensor": _integers(4),
    "Float8Tensor": _float8,
    "Int4Tensor": _int4,
    "Int4TilePackedTo4dTensor": _tile_packed,
}
