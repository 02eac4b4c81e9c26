"""Read safetensors files: a header with the place of each tensor, checked against the file."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.errors import ArgumentError

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Elements of weights, by their names in a header."""
MOST_HEADER = 100 * 2**20
"""Bytes of a header at the most, as other readers have it."""
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: its first byte, and what the header says of it."""

    file: Path
    key: str
    dtype: str
    shape: tuple[int, ...]
    start: int

    def read(self) -> torch.Tensor:
        """Map its bytes into memory; they are loaded when they are used."""
        if self.dtype not in DTYPES:
            raise ArgumentError(
                f"weft.llm: '{self.key}' has a dtype that no kernel takes",
                where=str(self.file),
                got=self.dtype,
                allowed=", ".join(DTYPES),
            )
        dtype = DTYPES[self.dtype]
        count = math.prod(self.shape)
        if not count:
            return torch.empty(self.shape, dtype=dtype)
        mapped = np.memmap(self.file, np.uint8, "c", self.start, (count * dtype.itemsize,))
        return torch.from_numpy(mapped).view(dtype).view(self.shape)


def tensors(folder: Path) -> dict[str, Stored]:
    """The tensors of a model's folder, by key: one file, or those that an index lists."""
    index = folder / INDEX
    if not index.exists():
        if not (folder / SINGLE).exists():
            raise ArgumentError(
                "weft.llm: the folder has no weights",
                where=str(folder),
                allowed=f"{SINGLE}, or {INDEX} and the files that it lists",
            )
        return _header(folder / SINGLE)
    places = _index(index)
    files = {name: _header(folder / name) for name in sorted(set(places.values()))}
    for key, name in places.items():
        if key not in files[name]:
            raise ArgumentError(
                f"weft.llm: a file lacks '{key}', which the index lists for it",
                where=str(folder / name),
            )
    return {key: files[name][key] for key, name in places.items()}


def _index(path: Path) -> dict[str, str]:
    """The file of each key."""
    try:
        places = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        if all(type(k) is type(v) is str and "/" not in v for k, v in places.items()):
            return dict(places)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _broken(path, "the index cannot be read", repr(error)) from None
    raise _broken(path, "the index lists files that are not in its folder", "")


def _header(path: Path) -> dict[str, Stored]:
    """The tensors of a file, after their places are checked against its size."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, MOST_HEADER):
                raise _broken(path, "the file is cut off", f"{size} bytes, header of {length}")
            header = json.loads(file.read(length))
    except (OSError, ValueError) as error:
        raise _broken(path, "the file cannot be read", str(error)) from None
    if not isinstance(header, dict):
        raise _broken(path, "the header is no object", type(header).__name__)
    header.pop("__metadata__", None)
    first = 8 + length
    return {key: _stored(path, key, entry, first, size) for key, entry in header.items()}


def _stored(path: Path, key: str, entry: Any, first: int, size: int) -> Stored:
    try:
        dtype, shape = str(entry["dtype"]), tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        plain = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    except (KeyError, TypeError, ValueError):
        plain = False
    if not plain:
        raise _broken(path, f"the entry of '{key}' is not well-formed", repr(entry))
    if first + end > size or begin > end:
        raise _broken(
            path,
            f"the file is cut off: it lacks bytes of '{key}'",
            f"bytes {begin} to {end} of {size - first}",
        )
    if dtype in DTYPES and math.prod(shape) * DTYPES[dtype].itemsize != end - begin:
        raise _broken(
            path,
            f"the size of '{key}' does not fit its shape",
            f"{end - begin} bytes for {dtype} {list(shape)}",
        )
    return Stored(path, key, dtype, shape, first + begin)


def _broken(path: Path, what: str, got: str) -> ArgumentError:
    return ArgumentError(f"weft.llm: {what}", where=str(path), got=got)
