"""Findings of the sanitizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Dims = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a finding.

    verb            what it did, e.g. "write"
    line            file and line, with the source text and the calls inlined around it
    file, number    the file and the number of the line
    block, thread   who did it; None where it was the host

    >>> racing = weft.cuda("__global__ void racing(int* x) { x[0] = threadIdx.x; }").racing
    >>> with weft.sanitize(raises=False) as found:
    ...     racing[1, 64](np.zeros(1, np.int32))
    >>> print(found.findings[0].accesses[0].number)
    1
    """

    verb: str
    line: str
    file: str
    number: int
    block: Dims | None
    thread: Dims | None

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Access:
        """The access of a dict that `Finding.to_dict` gave."""
        places = {name: tuple(facts[name]) if facts[name] else None for name in ("block", "thread")}
        return cls(**{**facts, **places})

    def __str__(self) -> str:
        who = "" if self.block is None else f"  (block {self.block}, thread {self.thread})"
        return f"{self.verb}: {self.line}{who}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One error that the sanitizer found between one pair of source lines.

    kind       the kind of error, e.g. "race"
    what       the error in words
    kernel     the kernel; empty where the host is at fault
    accesses   the accesses that are involved, each an `Access`
    times      how often it was seen
    next       what to do about it
    place      the array and the element
    address    the address

    >>> print(found.findings[0].kernel)
    racing
    """

    kind: str
    what: str
    kernel: str
    accesses: tuple[Access, ...]
    times: int
    next: str
    place: str = ""
    address: int | None = None

    def __str__(self) -> str:
        first = self.accesses[0]
        where = f"{first.file}:{first.number}" if first.number else first.file
        lines = [f"{where}: {self.what}" + (f" in {self.kernel}" if self.kernel else "")]
        lines += [str(a) for a in self.accesses]
        if self.place:
            lines.append(f"at: {self.place}")
        lines.append(f"seen: {self.times:,} x")
        lines.append(f"next: {self.next}")
        return "\n  ".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The finding as a dict, for JSON."""
        return asdict(self)


@dataclass
class DeviceWork:
    """Messages of one GPU of a program, and the memory that it needed.

    device        the number of the GPU in its process
    collectives   collective operations of NCCL
    messages      calls of ncclSend
    bytes_sent    bytes of these messages
    peak_memory   the most bytes of device memory that were allocated at a time
    """

    device: int
    collectives: int = 0
    messages: int = 0
    bytes_sent: int = 0
    peak_memory: int = 0


def summary(launches: int, accesses: int, barriers: int, syncs: int, arrays: int) -> str:
    """Describe how much was checked."""
    counts: Sequence[tuple[int, str]] = (
        (launches, "launches"),
        (accesses, "accesses"),
        (barriers, "barriers"),
        (syncs, "warp synchronisations"),
        (arrays, "arrays"),
    )
    return ", ".join(f"{n:,} {what}" for n, what in counts)
