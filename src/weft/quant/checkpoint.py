"""Read safetensors files: a header with the place of each tensor, checked against the file."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.errors import ArgumentError

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Elements of weights, by their names in a header."""
PACKED = {
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "U8": torch.uint8,
    "I8": torch.int8, "I32": torch.int32, "I64": torch.int64,
}  # fmt: skip
"""Elements of the tensors that a quantised weight is stored as."""
KNOWN = {**DTYPES, **PACKED}
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

    def read(self, allowed: Collection[str] = tuple(DTYPES)) -> torch.Tensor:
        """Map its bytes into memory; they are loaded when they are used.

        allowed  dtypes by their names in a header; others raise
        """
        if self.dtype not in allowed:
            raise ArgumentError(
                f"'{self.key}' has a dtype that no kernel takes",
                where=str(self.file),
                got=self.dtype,
                allowed=", ".join(allowed),
            )
        dtype = KNOWN[self.dtype]
        count = math.prod(self.shape)
        if not count:
            return torch.empty(self.shape, dtype=dtype)
        mapped = np.memmap(self.file, np.uint8, "c", self.start, (count * dtype.itemsize,))
        return torch.from_numpy(mapped).view(dtype).view(self.shape)


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a model by key, and the texts that the headers of its files hold."""

    tensors: dict[str, Stored]
    metadata: dict[str, str]


def read(path: Path) -> Checkpoint:
    """Read the headers of a safetensors file, or of a folder: one file, or those of an index."""
    if not path.is_dir():
        return _header(path)
    index = path / INDEX
    if not index.exists():
        if not (path / SINGLE).exists():
            pickled = any(path.glob("*.bin"))
            raise ArgumentError(
                "the folder has no weights",
                where=str(path),
                got="files of torch.save, which may run code" if pickled else "",
                allowed=f"{SINGLE}, or {INDEX} and the files that it lists",
                next="save the model as safetensors" if pickled else "",
            )
        return _header(path / SINGLE)
    places = _index(index)
    files = {name: _header(path / name) for name in sorted(set(places.values()))}
    for key, name in places.items():
        if key not in files[name].tensors:
            raise ArgumentError(
                f"a file lacks '{key}', which the index lists for it", where=str(path / name)
            )
    metadata = {key: text for file in files.values() for key, text in file.metadata.items()}
    return Checkpoint({k: files[name].tensors[k] for k, name in places.items()}, metadata)


def _index(path: Path) -> dict[str, str]:
    """The file of each key."""
    try:
        places = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        if all(type(k) is type(v) is str and "/" not in v for k, v in places.items()):
            return dict(places)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _broken(path, "the index cannot be read", repr(error)) from None
    raise _broken(path, "the index lists files that are not in its folder", "")


def _header(path: Path) -> Checkpoint:
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
    metadata = header.pop("__metadata__", None)
    found = {k: _stored(path, k, entry, 8 + length, size) for k, entry in header.items()}
    texts = metadata.items() if isinstance(metadata, dict) else ()
    return Checkpoint(found, {k: text for k, text in texts if isinstance(text, str)})


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
    if dtype in KNOWN and math.prod(shape) * KNOWN[dtype].itemsize != end - begin:
        raise _broken(
            path,
            f"the size of '{key}' does not fit its shape",
            f"{end - begin} bytes for {dtype} {list(shape)}",
        )
    return Stored(path, key, dtype, shape, first + begin)


def _broken(path: Path, what: str, got: str) -> ArgumentError:
    return ArgumentError(what, where=str(path), got=got)
