"""Decoders that generate tokens on weft's kernels: Llama, Mistral, Qwen 2, Qwen 3 and GPT-2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.ops.core import bind
from weft.ops.core.bind import deferred

if TYPE_CHECKING:  # need torch
    from weft.llm.decoder import Decoder
    from weft.llm.generator import Generator
    from weft.llm.sampling import Sampling
    from weft.llm.texts import Texts

__all__ = ["Generator", "Sampling", "Texts", "load"]

_HOMES = {
    "DecoderConfig": "config",
    "Decoder": "decoder",
    "Generator": "generator",
    "Sampling": "sampling",
    "Texts": "texts",
}
"""Classes, and the modules that need torch to define them."""


def load(folder: Any, device: Any = None, dtype: Any = None) -> Decoder:
    """Load a decoder from a folder with config.json and safetensors files.

    folder  as public models of the families Llama, Mistral, Qwen 2, Qwen 3 and GPT-2 are stored
    device  of torch: "cuda", or "cpu" for the simulated GPU; by default a GPU if there is one
    dtype   float32, float16 or bfloat16; by default that of the weights

    Keys and shapes are checked: an error names the file and the key. Every product of the model is
    a `weft.nn.Linear`, or a layer of `weft.quant` where GPTQ, AWQ, compressed-tensors, torchao or
    fp8 in blocks quantised the weights.

    >>> try:
    ...     weft.llm.load("no/such/folder")
    ... except weft.ArgumentError as error:
    ...     print(error.what)
    weft.llm.load: there is no such folder
    """
    made: Decoder = bind.with_torch("weft.llm.loading").load(folder, device, dtype)
    return made


__getattr__, __dir__ = deferred.attributes(__name__, _HOMES, sorted({*__all__, *_HOMES}))
