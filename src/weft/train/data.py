"""Reads MNIST: images of handwritten digits, 28 x 28 pixels of one byte, and their labels.

The files are in the IDX format, compressed by gzip or not. Without files there is a sample of the
data set, which is part of the package (`sample.npz`): 512 images to train with and 128 to test.
MNIST was made by Yann LeCun, Corinna Cortes and Christopher J. C. Burges from NIST's databases. It
is available under the licence Creative Commons Attribution-ShareAlike 3.0, and so is the sample.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import ArgumentError

SAMPLE = Path(__file__).with_name("sample.npz")
PARTS = {
    "training": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
WHERE = "https://storage.googleapis.com/cvdf-datasets/mnist/"
SIDE = 28
Array = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Digits:
    """Images [n, 28, 28] and the digit of each."""

    images: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Mnist:
    """The digits to train with and to test with, and where they are from."""

    training: Digits
    test: Digits
    origin: str


def load(folder: Path | None) -> Mnist:
    """MNIST from the files in a folder; without a folder, the sample."""
    if folder is None:
        with np.load(SAMPLE) as sample:
            parts = [Digits(sample[f"{p}_images"], sample[f"{p}_labels"]) for p in PARTS]
        return Mnist(parts[0], parts[1], "a sample of MNIST that is part of weft")
    parts = [Digits(*(_read(folder, name) for name in names)) for names in PARTS.values()]
    for part in parts:
        if part.images.shape != (len(part), SIDE, SIDE) or part.labels.max(initial=0) > 9:
            raise ArgumentError(
                "these files are not MNIST",
                got=f"images {part.images.shape}, labels up to {part.labels.max(initial=0)}",
                allowed=f"as many images of {SIDE} x {SIDE} as labels from 0 to 9",
            )
    return Mnist(parts[0], parts[1], f"MNIST in {folder}")


def _read(folder: Path, name: str) -> Array:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return idx(path)
    raise ArgumentError(
        "a file of MNIST is missing",
        got=f"neither {name} nor {name}.gz in {folder}",
        allowed="the four files of MNIST, compressed or not",
        next=f"get them from {WHERE}, or leave --data out to train on the sample",
    )


def idx(path: Path) -> Array:
    """The array of bytes in an IDX file."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            raise ArgumentError(f"{path} is damaged", got=str(error)) from None
    # Two zeros, the type (8: bytes), the number of dimensions, and their sizes.
    rank = raw[3] if len(raw) >= 4 and raw[:3] == b"\0\0\x08" else 0
    sizes = np.frombuffer(raw, ">u4", rank, 4) if rank and len(raw) >= 4 + 4 * rank else ()
    start = 4 + 4 * rank
    if not rank or len(raw) - start != int(np.prod(sizes)):
        raise ArgumentError(
            f"{path} is not an IDX file of bytes",
            got=f"{len(raw)} bytes, {raw[:4]!r} first",
            allowed="the header 00 00 08 and the number of dimensions, sizes, then all elements",
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(tuple(map(int, sizes)))
