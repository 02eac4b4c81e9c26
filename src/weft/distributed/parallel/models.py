"""GPT-2 and Llama over several ranks: heads, inner elements and the vocabulary are divided."""

from __future__ import annotations

from typing import Any

import torch

from weft.distributed.parallel.attention import ParallelAttention
from weft.distributed.parallel.collectives import copied, gathered
from weft.distributed.parallel.group import Group, check_same_shape, group_of
from weft.distributed.parallel.mlp import ParallelMLP, ParallelSwiGLU
from weft.distributed.parallel.norms import (
    all_reduce_add_layer_norm,
    all_reduce_add_rms_norm,
    reduce_scatter_add_layer_norm,
    reduce_scatter_add_rms_norm,
)
from weft.distributed.parallel.vocabulary import (
    VocabParallelEmbedding,
    VocabParallelHead,
    vocab_parallel_cross_entropy,
)
from weft.errors import ArgumentError
from weft.networks import gpt2, llama
from weft.ops.core import library


class _Block(torch.nn.Module):  # type: ignore[misc]
    """The parts of a block under the names that they have in the ordinary model."""

    def __init__(self, block: torch.nn.Module, attention: torch.nn.Module, mlp: Any) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attention = block.norm1, block.norm2, attention
        for name, layer in mlp.named_children():
            self.add_module(name, layer)
        self.mlp = mlp.forward  # no module: its layers are those of the block


class ParallelDecoder(torch.nn.Module):  # type: ignore[misc]
    """A decoder over several ranks, made by `parallelise`.

    `forward(tokens)` returns all logits on each rank, `loss(tokens, target)` the cross-entropy,
    for which the logits stay divided. Tokens and targets are equal on all ranks.

    >>> print(isinstance(model, weft.distributed.parallel.ParallelDecoder))
    True
    """

    def __init__(self, model: Any, group: Group, sequence: bool, check: bool) -> None:
        super().__init__()
        self.config, self.group, self.sequence, self.check = model.config, group, sequence, check
        self.tokens = VocabParallelEmbedding(model.tokens, group, scatter=sequence)
        tied = self.tokens if model.head.weight is model.tokens.weight else None
        self.blocks = torch.nn.ModuleList(self._block(block) for block in model.blocks)
        self.norm = model.norm
        self.head = VocabParallelHead(model.head, group, tied=tied, sequence=sequence)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """All logits, on every rank."""
        logits = gathered(self.group, self.logits(tokens))
        return logits[..., : self.config.vocabulary]

    def loss(self, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The mean cross-entropy of the next tokens."""
        return vocab_parallel_cross_entropy(
            self.logits(tokens), target, self.config.vocabulary, group=self.group
        )

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of this rank's part of the vocabulary.

        After the sum of each pair of layers over ranks, the residual connection and the norm of
        the next layer are one launch.
        """
        if self.check:
            check_same_shape(self.group, tokens)
        if self.sequence:
            self.group.share(tokens.shape[1], "tokens")
        x = self._embedded(tokens)
        angles = self._angles(tokens.shape[1], x)
        norms = [norm for b in self.blocks for norm in (b.norm1, b.norm2)] + [self.norm]
        y, following = self._normed(x, norms[0]), iter(norms[1:])
        for block in self.blocks:
            y, x = self._added(block.attention(y, *angles), x, next(following))
            y, x = self._added(block.mlp(y), x, next(following))
        found: torch.Tensor = self.head(y)
        return found

    @property
    def _options(self) -> dict[str, Any]:
        """Those of layers that leave their sum to the norm that follows."""
        return {"group": self.group, "sequence": self.sequence, "output": "partial"}

    def _own(self, weight: Any) -> Any:
        """A weight that is applied to this rank's tokens: in parts of a sequence, others differ."""
        return copied(self.group, weight) if self.sequence and weight is not None else weight

    def _block(self, block: Any) -> torch.nn.Module:
        raise NotImplementedError

    def _embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.tokens(tokens)
        return found

    def _angles(self, length: int, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return ()

    def _normed(self, x: torch.Tensor, norm: Any) -> torch.Tensor:
        raise NotImplementedError

    def _added(self, y: torch.Tensor, x: torch.Tensor, norm: Any) -> Any:
        raise NotImplementedError


class ParallelGpt2(ParallelDecoder):
    """GPT-2 over several ranks."""

    def __init__(self, model: gpt2.Gpt2, group: Group, sequence: bool, check: bool) -> None:
        if model.config.dropout:
            raise ArgumentError(
                "a divided model has no dropout: ranks would draw different numbers",
                got=f"dropout {model.config.dropout}",
                allowed="0",
            )
        super().__init__(model, group, sequence, check)
        self.positions = model.positions

    def _block(self, block: Any) -> torch.nn.Module:
        old, heads = block.attention, self.config.heads
        attention = ParallelAttention(heads, heads, old.qkv, old.out, **self._options)
        return _Block(block, attention, ParallelMLP(block.up, block.down, **self._options))

    def _embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        if self.sequence:
            places = places.chunk(self.group.world)[self.group.rank].contiguous()
        weight = self._own(self.positions.weight)
        found: torch.Tensor = self.tokens(tokens) + library.call("embedding")(places, weight)
        return found

    def _normed(self, x: torch.Tensor, norm: Any) -> torch.Tensor:
        weights = self._own(norm.weight), self._own(norm.bias)
        found: torch.Tensor = library.call("layer_norm")(x, x.shape[-1:], *weights, norm.eps)
        return found

    def _added(self, y: torch.Tensor, x: torch.Tensor, norm: Any) -> Any:
        step = reduce_scatter_add_layer_norm if self.sequence else all_reduce_add_layer_norm
        return step(y, x, norm.weight, norm.bias, norm.eps, group=self.group)


class ParallelLlama(ParallelDecoder):
    """Llama over several ranks."""

    def _block(self, block: Any) -> torch.nn.Module:
        old, config = block.attention, self.config
        attention = ParallelAttention(
            config.heads, config.kv_heads, (old.q, old.k, old.v), old.out, **self._options
        )
        mlp = ParallelSwiGLU(block.gate, block.up, block.down, **self._options)
        return _Block(block, attention, mlp)

    def _angles(self, length: int, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Cosines and sines of each place, one for each pair of a head's elements."""
        size = self.config.width // self.config.heads
        angles = llama._angles(length, size, self.config.theta, x.device)[:, : size // 2]
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def _normed(self, x: torch.Tensor, norm: Any) -> torch.Tensor:
        weight = self._own(norm.weight)
        found: torch.Tensor = library.call("rms_norm")(x, x.shape[-1:], weight, norm.eps)
        return found

    def _added(self, y: torch.Tensor, x: torch.Tensor, norm: Any) -> Any:
        step = reduce_scatter_add_rms_norm if self.sequence else all_reduce_add_rms_norm
        return step(y, x, norm.weight, norm.eps, group=self.group)


MODELS = {gpt2.Gpt2: ParallelGpt2, llama.Llama: ParallelLlama}


def parallelise(
    model: torch.nn.Module, group: Any = None, *, sequence: bool = False, check: bool = True
) -> ParallelDecoder:
    """Divide a GPT-2 or Llama of `weft.networks` over ranks; its kernels are weft's.

    model     the ordinary model with equal weights on all ranks; its norms are used further
    group     a process group, a device mesh of one dimension, or None: all processes
    sequence  between the layers, each rank has a part of every sequence
    check     raise if ranks have batches of different shapes; one small exchange for each batch

    >>> import torch
    >>> import weft.distributed.parallel
    >>> from weft.networks.network import network
    >>> model = weft.distributed.parallel.parallelise(network("llama", "tiny").module)
    >>> print(model(torch.zeros(1, 4, dtype=torch.int64)).shape)
    torch.Size([1, 4, 61])
    """
    made = MODELS.get(type(model))
    if made is None:
        raise ArgumentError(
            "parallelise does not know this model",
            got=type(model).__name__,
            allowed=", ".join(kind.__name__ for kind in MODELS),
            next="divide its layers: ColumnParallelLinear, RowParallelLinear",
        )
    found = group_of(group)
    found.agree("models", f"{type(model).__name__} {model.config}")
    return made(model, found, sequence, check)
