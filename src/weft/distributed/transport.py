"""Send and receive tensors between the ranks of a group; errors name the rank."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from weft.errors import ArgumentError, Error

_CONTROL: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""Groups by which host tensors travel, of groups whose own backend takes none."""


class RankError(Error):
    """A rank of a group has ended, has refused its arguments, or does not answer in time.

    rank  the number of the rank in its group

    >>> print(weft.distributed.RankError("weft.distributed: rank 3 does not answer", rank=3).rank)
    3
    """

    def __init__(self, what: str, *, rank: int, where: str = "", got: str = "", next: str = ""):
        self.rank = rank
        super().__init__(what, where=where, got=got, next=next)


class Peers:
    """The ranks of a group; `name` is the function that errors name.

    timeout  seconds to wait for a message; None: the time limit of the group
    """

    def __init__(self, name: str, group: Any = None, timeout: float | None = None) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise ArgumentError(
                f"weft.distributed.{name}: torch.distributed has no process group",
                next="torch.distributed.init_process_group(...) in every process",
            )
        self.name, self.timeout = name, timeout
        self.group = dist.group.WORLD if group is None else group
        self.rank: int = dist.get_rank(self.group)
        self.world: int = dist.get_world_size(self.group)
        if self.rank < 0:
            raise ArgumentError(
                f"weft.distributed.{name}: this process is not in the group",
                got=f"rank {dist.get_rank()} of all processes",
                next="call it in the processes of the group alone",
            )
        if timeout is not None and not timeout > 0:
            raise ArgumentError(
                f"weft.distributed.{name}: timeout is {timeout}, expected more than 0 seconds",
                where=self.where,
            )

    @property
    def where(self) -> str:
        """This rank, for errors."""
        return f"rank {self.rank} of {self.world}"

    def exchange(
        self, sends: Sequence[tuple[int, torch.Tensor]], receives: Sequence[tuple[int, Any]]
    ) -> Exchange:
        """Start to send tensors to ranks, and to receive others from ranks.

        All ranks make the same exchanges in the same order. Received tensors are contiguous.
        """
        return Exchange(self, sends, receives)

    def control(self) -> Peers:
        """The same ranks, for tensors of the host."""
        if "cpu" in _backends(self.group):
            return self
        if self.group not in _CONTROL:
            ranks = dist.get_process_group_ranks(self.group)
            _CONTROL[self.group] = host_group(ranks, self.timeout)
        return Peers(self.name, _CONTROL[self.group], self.timeout)


def host_group(ranks: Sequence[int], timeout: float | None) -> Any:
    """A group of these ranks, which alone call this, whose messages are tensors of the host."""
    limit = None if timeout is None else timedelta(seconds=timeout)
    return dist.new_group(
        list(ranks), timeout=limit, backend="gloo", use_local_synchronization=True
    )


class Exchange:
    """Messages under way; `wait` returns the received tensors."""

    def __init__(
        self, peers: Peers, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]]
    ) -> None:
        self._peers, self._results = peers, [x for _, x in receives]
        # gloo sends tensors of the host alone: those of a GPU go through its memory.
        of_host = [(rank, _staged(peers, x.contiguous(), copied=True)) for rank, x in sends]
        self._received = [(rank, _staged(peers, x, copied=False)) for rank, x in receives]
        messages = [(dist.isend, *m) for m in of_host] + [(dist.irecv, *m) for m in self._received]
        self._ranks = [rank for _, rank, _ in messages]
        self._messages = messages  # a buffer must live until it has been sent
        backends = _backends(peers.group)
        self._by_gloo = all(backends.get(x.device.type) == "gloo" for _, _, x in messages)
        self._failed: list[RankError] = []
        self._works = self._posted()

    def _posted(self) -> Sequence[Any]:
        group = self._peers.group
        peers = [dist.get_global_rank(group, rank) for _, rank, _ in self._messages]
        ops = [
            dist.P2POp(kind, x, peer, group)
            for (kind, _, x), peer in zip(self._messages, peers, strict=True)
        ]
        if not self._by_gloo:
            return dist.batch_isend_irecv(ops) if ops else ()
        # gloo has no batches: posted one by one, a message that fails names its rank.
        return [self._tried(rank, op) for rank, op in zip(self._ranks, ops, strict=True)]

    def _tried(self, rank: int, op: Any) -> Any:
        """Post a message; None if that fails. Other ranks still wait for the other messages."""
        try:
            return dist.batch_isend_irecv([op])[0]
        except RuntimeError as error:
            self._failed.append(self._error([rank], error))
            return None

    def wait(self) -> list[torch.Tensor]:
        """Wait for all messages; on a GPU the stream waits, not the host."""
        one_each = len(self._works) == len(self._ranks)
        for i, work in enumerate(self._works):
            try:
                self._done(work)
            except RuntimeError as error:
                ranks = [self._ranks[i]] if one_each else self._ranks
                self._failed.append(self._error(ranks, error))
        if self._failed:
            raise self._failed[0]
        for (_, staged), result in zip(self._received, self._results, strict=True):
            if staged is not result:
                result.copy_(staged)
        self._messages, self._works = [], ()
        return self._results

    def _done(self, work: Any) -> None:
        """Wait for a message that was posted."""
        limit = self._peers.timeout if self._by_gloo else None  # others would block the host
        if work is not None:
            work.wait(*() if limit is None else (timedelta(seconds=limit),))

    def _error(self, ranks: Sequence[int], error: RuntimeError) -> RankError:
        known = sorted(set(ranks))
        who = f"rank {known[0]}" if len(known) == 1 else f"one of the ranks {known}"
        late = "timed out" in str(error).lower() or "timeout" in str(error).lower()
        what = "does not answer" if late else "has ended or cannot be reached"
        return RankError(
            f"weft.distributed.{self._peers.name}: {who} {what}",
            rank=known[0],
            where=self._peers.where,
            got=str(error).splitlines()[0].split("] ", 1)[-1].split(". ")[0],
            next=f"read the output of {who}: all ranks must make the same calls",
        )


def _staged(peers: Peers, x: torch.Tensor, copied: bool) -> torch.Tensor:
    """The tensor itself, or one of the host where the group sends no others."""
    if _backends(peers.group).get(x.device.type) != "gloo" or x.device.type == "cpu":
        return x
    return x.cpu() if copied else torch.empty_like(x, device="cpu")


def _backends(group: Any) -> dict[str, str]:
    """The backend of each kind of device."""
    pairs = (pair.split(":") for pair in dist.get_backend_config(group).split(","))
    return {device: name for device, name in pairs}
