"""Runs the collectives of a process group in order, on a thread of their own, as NCCL does.

Before each collective the ranks exchange what they are about to do. A rank that does something else
gets an error that names the ranks, where Gloo would wait, fail without a reason, or mix up bytes.
"""

from __future__ import annotations

import _thread
import json
import queue
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from weft.errors import Error
from weft.frontends.pytorch.distributed.transport import transfer, transport

_MOST_BYTES = 1024
"""Size of the description of a collective that ranks exchange."""

failures: list[BaseException] = []
"""Errors of asynchronous collectives, which the next wait raises: torch's handles lose them."""


class CollectiveError(Error, dist.DistBackendError):  # type: ignore[misc]
    """A collective failed, or ranks called different ones."""


class JoinError(Error, dist.DistNetworkError):  # type: ignore[misc]
    """A rank did not join a process group."""


class Call(NamedTuple):
    """A collective as its ranks compare it.

    shown   for errors
    same    equal on all ranks; "" for a call that compares nothing
    sends   number of elements to each rank, for exchanges; those of the peers' `takes`
    takes   number of elements from each rank
    """

    shown: str
    same: str
    sends: Sequence[int] = ()
    takes: Sequence[int] = ()


FINISH = 5.0
"""Seconds in which handles get their results: callbacks of the script may run then."""


class Communicator:
    """The collectives of one process group, on the rank of this process."""

    def __init__(self, group: Any) -> None:
        self.rank, self.size = group.rank(), group.size()
        self.gloo = transport(group)
        self.nccl = dist.get_backend(group) == "nccl"
        ranks = dist.get_process_group_ranks(group)
        self._names = [f"rank {rank}" for rank in ranks]
        self._progress = Progress(group)
        self._number = 0
        self._finishing = threading.RLock()  # held while a handle gets its result
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # Not threading.Thread: the modes of the script are not entered there.
        _thread.start_new_thread(self._serve, ())

    def run(
        self, call: Call, body: Callable[[], None], results: Sequence[Any], asynchronous: bool
    ) -> Any:
        """Submit a collective and return its handle; wait for it unless it is asynchronous.

        `results` are tensors, the value of the handle's future.
        """
        started: Any = torch.futures.Future()
        over, error = threading.Event(), []

        def task() -> None:
            try:
                self._run(call, body)
            except BaseException as failed:  # the caller gets it, on its own thread
                error.append(failed)
                if asynchronous:
                    failures.append(failed)
            with self._finishing:
                started.set_result([])
                over.set()

        def outcome(_: Any) -> list[Any]:
            if error:
                raise error[0]
            return list(results)

        # The outcome of `then` is an error that C++ code sees; that of `set_exception` is not.
        work = c10d._create_work_from_future(  # type: ignore[attr-defined]
            started.then(outcome)
        )
        self._tasks.put(task)
        if not asynchronous:
            over.wait()
            if error:
                raise error[0]
        return work

    def close(self) -> None:
        """End the thread after the collectives that it has.

        One that ends is waited for: a thread in C++ code would abort a process that exits.
        """
        self._tasks.put(None)
        if self._finishing.acquire(timeout=FINISH):
            self._finishing.release()

    def _serve(self) -> None:
        with torch.no_grad():
            while (task := self._tasks.get()) is not None:
                task()

    def _run(self, call: Call, body: Callable[[], None]) -> None:
        self._number += 1
        self._progress.begins(self._number, call.shown)
        try:
            if self.size > 1 and call.same:
                self._compare(call)
            body()
        except CollectiveError:
            raise
        except RuntimeError as error:
            raise CollectiveError(
                f"{call.shown} failed on {self._names[self.rank]}: {_reason(error)}",
                got=self._progress.of_the_others(),
                next="look for a rank that ended, hangs, or calls something else; `timeout=` of "
                "init_process_group is how long the others wait for it",
            ) from error

    def _compare(self, call: Call) -> None:
        """Exchange descriptions; raise an error that names the ranks if they do not fit."""
        texts = self._exchanged(json.dumps(call))
        if texts is None:
            return
        calls = [Call(*json.loads(text)) for text in texts]
        fit = all(other.same == call.same for other in calls) and all(
            sender.sends[taker] == receiver.takes[giver]
            for giver, sender in enumerate(calls)
            for taker, receiver in enumerate(calls)
            if call.sends
        )
        if not fit:
            raise CollectiveError(
                f"the ranks disagree about collective {self._number} of their group",
                got=", ".join(f"{n}: {c.shown}" for n, c in zip(self._names, calls, strict=True)),
                allowed="the same collective, of the same size and dtype, on all ranks",
                next="call it with equal arguments on every rank, in the same order",
            )

    def _exchanged(self, text: str) -> list[str] | None:
        """The texts of all ranks; None if one of them is too long to be exchanged."""
        data = text.encode()
        if len(data) > _MOST_BYTES:
            data = b""
        own = torch.frombuffer(bytearray(data.ljust(_MOST_BYTES)), dtype=torch.uint8)
        every = torch.empty(self.size * _MOST_BYTES, dtype=torch.uint8)
        transfer(self.gloo._allgather_base, every, own)
        texts = [bytes(part.tolist()).decode().strip() for part in every.chunk(self.size)]
        return texts if all(texts) else None


class Progress:
    """The last collective of each rank, in the store of a group, for errors."""

    def __init__(self, group: Any) -> None:
        self._rank = group.rank()
        self._ranks = dist.get_process_group_ranks(group)
        self._store: Any = getattr(group, "get_group_store", lambda: None)()

    def begins(self, number: int, shown: str) -> None:
        """Tell the other ranks which collective begins here."""
        if self._store is not None:
            self._store.set(f"weft/{self._rank}", f"{number}, {shown}")

    def of_the_others(self) -> str:
        """Say for each other rank which collective it began last."""
        peers = [i for i in range(len(self._ranks)) if i != self._rank]
        return ", ".join(f"rank {self._ranks[i]}: {self._last(i)}" for i in peers)

    def _last(self, index: int) -> str:
        key = f"weft/{index}"
        try:
            if self._store is None or not self._store.check([key]):
                return "called no collective of this group"
            return f"last called collective {self._store.get(key).decode()}"
        except RuntimeError:  # the process with the store has ended
            return "unknown"


def raise_failure() -> None:
    """Raise the error of an asynchronous collective that failed, once."""
    if failures:
        raise failures.pop(0)


def _reason(error: BaseException) -> str:
    """The first sentence of an error of Gloo, without the line of its source."""
    return re.sub(r"^\[[^]]*\] *", "", str(error).strip()).partition("\n")[0].partition(". ")[0]
