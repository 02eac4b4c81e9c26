"""Models over several processes: gradients in buckets, and models divided over ranks."""

# buckets.py      gradients of all processes, added up during the backward pass
# group.py        the processes that share a model; failures.py names those that end
# collectives.py  differentiable exchanges; norms.py: with a residual connection and a norm
# shards.py       weights divided over ranks, from and to an ordinary state dict
# linear.py, attention.py, mlp.py, vocabulary.py: divided layers
# clip.py         the norm of all ranks' gradients
# models.py       `parallelise`: GPT-2 and Llama of weft.networks over ranks

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.ops.core.bind import deferred

if TYPE_CHECKING:
    from weft.distributed.parallel.attention import ParallelAttention
    from weft.distributed.parallel.buckets import GradientBuckets
    from weft.distributed.parallel.clip import clip_grad_norm_
    from weft.distributed.parallel.failures import named_failures
    from weft.distributed.parallel.linear import ColumnParallelLinear, RowParallelLinear
    from weft.distributed.parallel.mlp import ParallelMLP, ParallelSwiGLU
    from weft.distributed.parallel.models import ParallelDecoder, parallelise
    from weft.distributed.parallel.norms import (
        all_reduce_add_layer_norm,
        all_reduce_add_rms_norm,
        reduce_scatter_add_layer_norm,
        reduce_scatter_add_rms_norm,
    )
    from weft.distributed.parallel.shards import load_whole, whole_state_dict
    from weft.distributed.parallel.vocabulary import (
        VocabParallelEmbedding,
        VocabParallelHead,
        vocab_parallel_cross_entropy,
    )

_HOME = {
    "ColumnParallelLinear": "linear", "GradientBuckets": "buckets",
    "ParallelAttention": "attention", "ParallelDecoder": "models", "ParallelMLP": "mlp",
    "ParallelSwiGLU": "mlp", "RowParallelLinear": "linear", "VocabParallelEmbedding": "vocabulary",
    "VocabParallelHead": "vocabulary", "all_reduce_add_layer_norm": "norms",
    "all_reduce_add_rms_norm": "norms", "clip_grad_norm_": "clip",
    "load_whole": "shards", "named_failures": "failures", "parallelise": "models",
    "reduce_scatter_add_layer_norm": "norms",
    "reduce_scatter_add_rms_norm": "norms", "vocab_parallel_cross_entropy": "vocabulary",
    "whole_state_dict": "shards",
}  # fmt: skip

__all__ = [
    "ColumnParallelLinear",
    "GradientBuckets",
    "ParallelAttention",
    "ParallelDecoder",
    "ParallelMLP",
    "ParallelSwiGLU",
    "RowParallelLinear",
    "VocabParallelEmbedding",
    "VocabParallelHead",
    "all_reduce_add_layer_norm",
    "all_reduce_add_rms_norm",
    "clip_grad_norm_",
    "load_whole",
    "named_failures",
    "parallelise",
    "reduce_scatter_add_layer_norm",
    "reduce_scatter_add_rms_norm",
    "vocab_parallel_cross_entropy",
    "whole_state_dict",
]
__getattr__, __dir__ = deferred.attributes(__name__, _HOME, __all__)
