"""Compare the arguments of all ranks before the first tensor is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import torch

from weft.distributed.transport import Peers, RankError
from weft.errors import ArgumentError, Error

BYTES = 2048
"""Bytes of a message."""
LONGEST = 140
"""Characters of a value; longer texts of errors are cut, so that all values fit in a message."""
ERROR = "error"


def agree(peers: Peers, arguments: Callable[[], Mapping[str, object]], compare: bool) -> None:
    """Raise on every rank if one rank's arguments are refused, or differ from those of rank 0.

    arguments  returns what must be equal, by name; raises Error for invalid ones
    compare    False: each rank looks at its own arguments alone, and nothing is sent
    """
    refused: Error | None = None
    try:
        mine = {name: _short(value) for name, value in arguments().items()}
    except Error as error:
        refused, mine = error, {ERROR: _short(error.what)}
    said = _gathered(peers.control(), mine) if compare and peers.world > 1 else [mine]
    if refused is not None:
        raise refused
    for rank, theirs in enumerate(said):
        if ERROR in theirs:
            raise RankError(
                f"weft.distributed.{peers.name}: rank {rank} has refused its arguments",
                rank=rank,
                where=peers.where,
                got=theirs[ERROR],
            )
    for rank, theirs in enumerate(said):
        _compared(peers, rank, said[0], theirs)


def _compared(peers: Peers, rank: int, first: Mapping[str, str], other: Mapping[str, str]) -> None:
    for name in first:
        if first[name] != other.get(name):
            raise ArgumentError(
                f"weft.distributed.{peers.name}: rank {rank} differs from rank 0 in {name}",
                where=peers.where,
                got=f"rank {rank}: {other.get(name)}; rank 0: {first[name]}",
                allowed="the same on all ranks",
            )


def _gathered(peers: Peers, mine: Mapping[str, str]) -> list[dict[str, str]]:
    """The arguments of all ranks; raises RankError for one that does not answer."""
    others = [rank for rank in range(peers.world) if rank != peers.rank]
    message = _encoded(mine)
    buffers = [(rank, torch.empty_like(message)) for rank in others]
    peers.exchange([(rank, message) for rank in others], buffers).wait()
    said = {rank: _decoded(buffer) for rank, buffer in buffers} | {peers.rank: dict(mine)}
    return [said[rank] for rank in range(peers.world)]


def _short(value: object) -> str:
    return str(value).encode("ascii", "replace").decode()[:LONGEST]


def _encoded(words: Mapping[str, str]) -> torch.Tensor:
    return torch.tensor(list(json.dumps(words).encode().ljust(BYTES)), dtype=torch.uint8)


def _decoded(message: torch.Tensor) -> dict[str, str]:
    made: dict[str, str] = json.loads(bytes(message.tolist()))
    return made
