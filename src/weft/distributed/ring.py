"""Ring attention: keys and values visit the ranks, queries stay; partial results are merged.

The idea is that of Ring Attention (Liu, Zaharia and Abbeel), the layouts are those of Striped
Attention (Brandon and others) and of the zigzag order of Llama 3's training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from weft.distributed import steps
from weft.distributed.agreement import agree
from weft.distributed.arguments import Arguments, checked
from weft.distributed.blocks import Ring
from weft.distributed.transport import Exchange, Peers
from weft.ops.core import library


def ring_attention(
    arguments: Sequence[Any], group: Any, check: bool, timeout: float | None
) -> torch.Tensor:
    """Compute attention of a sequence whose shards are on the ranks of a group."""
    peers = Peers("ring_attention", group, timeout)
    given = Arguments(*arguments)
    agree(peers, lambda: checked(peers, given), check)
    return attention(peers, given.lowered())


def attention(peers: Peers, given: Arguments) -> torch.Tensor:
    """The result of arguments that are known to be valid."""
    if peers.world == 1:
        return alone(given)
    ring = given.ring(peers.world)
    tensors = given.four_dimensional()
    out: torch.Tensor = _Ring.apply(*tensors, peers, ring, given.scale)
    return out[0].transpose(0, 1) if ring.starts else out


def alone(given: Arguments) -> torch.Tensor:
    """A ring of one rank: plain attention."""
    ring = given.ring(1)
    options = (given.causal, given.scale, given.shared)
    if not ring.starts:
        out: torch.Tensor = library.call("attention")(
            given.q, given.k, given.v, None, 0.0, *options
        )
        return out
    block = ring.block(0, 0)
    assert block is not None
    starts, longest = steps.packed(block, given.q.device)
    tensors = (given.q, given.k, given.v, starts, starts, longest, longest)
    out = library.call("attention_varlen")(*tensors, *options)
    return out


class _Ring(torch.autograd.Function):  # type: ignore[misc]
    """Attention of this rank's queries; tensors are [batch, heads, rows of the shard, elements]."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, peers: Peers, ring: Ring, scale: Any) -> Any:
        out, lse = _forward(q, k, v, peers, ring, scale)
        ctx.peers, ctx.ring, ctx.scale = peers, ring, scale
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, dout: Any) -> Any:
        q, k, v, out, lse = ctx.saved_tensors
        # torch.autograd.grad accepts gradients of any dtype.
        saved = steps.Saved(dout.to(q.dtype), q, k, v, out, lse, ctx.scale)
        return *_backward(saved, ctx.peers, ctx.ring), None, None, None


def _forward(
    q: Any, k: Any, v: Any, peers: Peers, ring: Ring, scale: float | None
) -> tuple[Any, Any]:
    """The result in the dtype of the query, and the logarithms of the sums over all keys."""
    out = lse = None
    pair = like = [k, v]
    for step in range(ring.world):
        # The next keys travel while these are multiplied.
        pending = _forwarded(peers, ring, step, pair, like)
        block = ring.block(peers.rank, (peers.rank - step) % ring.world)
        if block is not None:
            part, part_lse = steps.attend(q, pair, block, scale)
            if out is None:  # a rank's own keys: each query sees one at least
                out, lse = part.float(), part_lse
            else:
                steps.merge(out, lse, part, part_lse, block)
        pair = pending.wait()
    assert out is not None
    return out.to(q.dtype), lse


def _forwarded(peers: Peers, ring: Ring, step: int, pair: list[Any], like: list[Any]) -> Exchange:
    """Send this step's keys and values on, and receive the next ones, as far as they are needed."""
    sends = [(_next(peers), x) for x in pair] if _leaves(peers, ring, step) else []
    receives = [(_previous(peers), x) for x in _buffers(like)] if _comes(peers, ring, step) else []
    return peers.exchange(sends, receives)


class _Carried(NamedTuple):
    """Gradients of keys and values under way: those of the next step's, and this rank's own."""

    exchange: Exchange
    sums: list[Any]
    own: list[Any]


def _backward(saved: steps.Saved, peers: Peers, ring: Ring) -> tuple[Any, Any, Any]:
    """The gradients of this rank's query, key and value.

    Gradients of keys and values, in float32, follow their keys one step later. From the last rank
    that needs the keys they go home.
    """
    dq: Any = None
    own: list[Any] = []
    pair = like = [saved.k, saved.v]
    carried = _Carried(peers.exchange([], []), [], [])
    for step in range(ring.world):
        pending = _forwarded(peers, ring, step, pair, like)
        block = ring.block(peers.rank, (peers.rank - step) % ring.world)
        made = None if block is None else steps.gradients(saved, pair, block)
        carried.exchange.wait()
        sums, own = carried.sums, carried.own or own
        if made is not None and dq is None:
            dq, *sums = (x.float() for x in made)
        elif made is not None and block is not None:
            firsts = (block.first_query, block.first_key, block.first_key)
            for total, part, first in zip((dq, *sums), made, firsts, strict=True):
                steps.add(total, part, first)
        carried = _returned(peers, ring, step, sums, like)
        pair = pending.wait()
    carried.exchange.wait()
    dk, dv = carried.own or own
    return dq.to(saved.q.dtype), dk.to(saved.k.dtype), dv.to(saved.v.dtype)


def _returned(peers: Peers, ring: Ring, step: int, sums: list[Any], like: list[Any]) -> _Carried:
    """Send gradients of this step's keys on, or home; receive those of the next step's."""
    source, mine = (peers.rank - step) % ring.world, ring.hops(peers.rank)
    to = _next(peers) if _leaves(peers, ring, step) else source
    # Keys that no other rank needs have their gradients at home already.
    own = sums if to == peers.rank else []
    sends = [] if to == peers.rank else [(to, x) for x in sums]
    arriving = _buffers(like, torch.float32) if _comes(peers, ring, step) else []
    receives = [(_previous(peers), x) for x in arriving]
    if mine == step and mine > 0:
        own = _buffers(like, torch.float32)
        receives += [((peers.rank + mine) % ring.world, x) for x in own]
    return _Carried(peers.exchange(sends, receives), arriving, own)


def _leaves(peers: Peers, ring: Ring, step: int) -> bool:
    """True if another rank needs the keys of this step."""
    return ring.hops((peers.rank - step) % ring.world) > step


def _comes(peers: Peers, ring: Ring, step: int) -> bool:
    """True if this rank needs or forwards the keys of the next step."""
    return ring.hops((peers.rank - step - 1) % ring.world) > step


def _next(peers: Peers) -> int:
    return (peers.rank + 1) % peers.world


def _previous(peers: Peers) -> int:
    return (peers.rank - 1) % peers.world


def _buffers(like: list[Any], dtype: torch.dtype | None = None) -> list[Any]:
    """Contiguous tensors for messages of these shapes."""
    return [x.new_empty(x.shape, dtype=x.dtype if dtype is None else dtype) for x in like]
