"""The struct that the kernel of a decoding step takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Float, Int, Struct, Unsigned


@dataclass(frozen=True)
class DecodeStep(Struct):
    """The sizes of a model and of its cache, and where parts of shared memory begin, in bytes."""

    layers: Int
    products: Annotated[Int, "four of each layer, and that of the head"]
    width: Int
    hidden: Annotated[Int, "of the feed-forward layers"]
    heads: Int
    kv_heads: Int
    vocabulary: Int
    capacity: Annotated[Int, "tokens of a text in the cache"]
    pairs: Annotated[Int, "elements of a head that are turned, divided by 2"]
    splits: Annotated[Int, "blocks that share the keys of a head of a text"]
    bits: Annotated[Unsigned, "MAGIC of weft/dequantise.cuh"]
    eps: Float
    scale: Annotated[Float, "of scores, times log2(e)"]
    inputs: Annotated[Int, "of a product, after the ring; or what attention needs"]
    sums: Annotated[Int, "of the inputs"]
    shares: Annotated[Int, "of the warps in results"]
    angles: Annotated[Int, "of the new tokens, with their positions"]
    words: Annotated[Int, "of the table"]
