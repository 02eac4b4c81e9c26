"""The arguments of attention on several ranks: checks, and forms that the ring takes."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from weft.distributed.blocks import Ring, check_layout
from weft.distributed.layouts import check_length
from weft.distributed.transport import Peers
from weft.errors import ArgumentError
from weft.ops.families.attention.check import DTYPES


@dataclass(frozen=True)
class Arguments:
    """A rank's arguments of attention, as they were given."""

    q: Any
    k: Any
    v: Any
    causal: bool
    layout: str
    scale: float | None
    cu_seqlens: Any = None

    @property
    def tensors(self) -> dict[str, Any]:
        """The tensors by name."""
        return {"query": self.q, "key": self.k, "value": self.v}

    @property
    def heads(self) -> int:
        """The dimension of heads."""
        return 1

    @property
    def rows(self) -> int:
        """The dimension of rows: packed sequences are [rows, heads, elements]."""
        return 2 if self.cu_seqlens is None else 0

    @property
    def shared(self) -> bool:
        """True if heads of queries share those of keys."""
        return bool(self.q.shape[self.heads] != self.k.shape[self.heads])

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """The first rows of packed sequences, of all ranks; empty: one sequence."""
        if self.cu_seqlens is None:
            return ()
        given = self.cu_seqlens
        return tuple(given.tolist() if isinstance(given, torch.Tensor) else given)

    def ring(self, world: int) -> Ring:
        """The sequence on so many ranks."""
        rows = self.q.shape[self.rows]
        return Ring(self.layout, world, rows, self.causal, self.starts)

    def lowered(self) -> Arguments:
        """The same in the dtype of autocast, where it is on."""
        kind = self.q.device.type
        if not torch.is_autocast_enabled(kind):
            return self
        dtype = torch.get_autocast_dtype(kind)
        q, k, v = (x.to(dtype) for x in (self.q, self.k, self.v))
        return dataclasses.replace(self, q=q, k=k, v=v)

    def four_dimensional(self) -> tuple[Any, Any, Any]:
        """The tensors as [batch, heads, rows, elements]."""
        if self.cu_seqlens is None:
            return self.q, self.k, self.v
        q, k, v = (x.transpose(0, 1)[None] for x in (self.q, self.k, self.v))
        return q, k, v


def checked(peers: Peers, given: Arguments) -> Mapping[str, object]:
    """Return what must be equal on all ranks; raise ArgumentError for invalid arguments."""
    check_layout(peers.name, given.layout, peers.where)
    _tensors(peers, given)
    _shapes(peers, given)
    rows = given.q.shape[given.rows]
    if rows == 0:
        raise _refusal(peers, "this rank has an empty shard", given, "at least one row")
    check_length(peers, given.layout, rows * peers.world)
    if given.cu_seqlens is not None:
        _packed(peers, given, rows * peers.world)
    options = {"causal": bool(given.causal), "layout": given.layout, "scale": given.scale}
    shapes = {f"the shape of {name}": list(x.shape) for name, x in given.tensors.items()}
    digest = hashlib.sha256(str(given.starts).encode()).hexdigest()[:16]
    sequences = f"{max(0, len(given.starts) - 1)} sequences, digest {digest}"
    return {**shapes, "the dtype": given.q.dtype, **options, "cu_seqlens": sequences}


def _tensors(peers: Peers, given: Arguments) -> None:
    for name, x in given.tensors.items():
        if not isinstance(x, torch.Tensor):
            raise ArgumentError(
                f"weft.distributed.{peers.name}: {name} is no tensor",
                where=peers.where,
                got=type(x).__name__,
            )
    dtypes = {x.dtype for x in given.tensors.values()}
    if len(dtypes) > 1 or given.q.dtype not in DTYPES:
        allowed = "one dtype: float32, float16 or bfloat16"
        raise _refusal(peers, "query, key and value have unsupported dtypes", given, allowed)
    if len({x.device for x in given.tensors.values()}) > 1:
        raise _refusal(peers, "query, key and value are on different devices", given, "one device")


def _shapes(peers: Peers, given: Arguments) -> None:
    q, k, v = (list(x.shape) for x in given.tensors.values())
    ragged = given.cu_seqlens is not None
    dims = 3 if ragged else 4
    fits = len(q) == len(k) == len(v) == dims and k[:-1] == v[:-1] and q[-1] == k[-1]
    if fits:
        h, n = given.heads, given.rows
        fits = q[n] == k[n] and k[h] > 0 and q[h] % k[h] == 0 and (ragged or q[0] == k[0])
    if not fits:
        allowed = "[rows, heads, elements]" if ragged else "[batch, heads, rows, elements]"
        more = ", as many rows of queries as of keys, heads of queries a multiple of those of keys"
        raise _refusal(peers, "query, key and value do not fit each other", given, allowed + more)


def _packed(peers: Peers, given: Arguments, total: int) -> None:
    if given.layout != "contiguous":
        raise ArgumentError(
            f"weft.distributed.{peers.name}: packed sequences have no {given.layout} layout",
            where=peers.where,
            allowed="contiguous",
        )
    given_as = given.cu_seqlens
    flat = given_as.dim() == 1 if isinstance(given_as, torch.Tensor) else False
    found = given.starts if flat or isinstance(given_as, list | tuple) else ()
    rising = all(isinstance(n, int) for n in found) and list(found) == sorted(found)
    if len(found) < 2 or not rising or found[0] != 0 or found[-1] != total:
        raise ArgumentError(
            f"weft.distributed.{peers.name}: cu_seqlens do not describe {total} rows",
            where=peers.where,
            got=f"{len(found)} numbers, {list(found[:3])} to {list(found[-1:])}",
            allowed=f"rising integers from 0 to {total}, the rows of all ranks",
        )


def _refusal(peers: Peers, what: str, given: Arguments, allowed: str) -> ArgumentError:
    shapes = (f"{n} {list(x.shape)} {x.dtype} {x.device}" for n, x in given.tensors.items())
    return ArgumentError(
        f"weft.distributed.{peers.name}: {what}",
        where=peers.where,
        got=", ".join(shapes),
        allowed=allowed,
    )
