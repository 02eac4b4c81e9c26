"""Counts what each GPU of a program sends, and the memory that it needs."""

from __future__ import annotations

from collections import Counter

from weft.values.findings import DeviceWork

_MESSAGES = ("ncclSend", "ncclRecv")
"""Calls of NCCL between two ranks; all others are collective."""


class Traffic:
    """The devices of one program, by number."""

    def __init__(self) -> None:
        self._work: dict[int, DeviceWork] = {}
        self._memory: Counter[int] = Counter()

    def of(self, device: int) -> DeviceWork:
        """The counts of a device."""
        return self._work.setdefault(device, DeviceWork(device))

    def called(self, device: int, call: str, nbytes: int) -> None:
        """Count a call of NCCL that reads so many bytes of its rank."""
        work = self.of(device)
        if call not in _MESSAGES:
            work.collectives += 1
        elif call == _MESSAGES[0]:
            work.messages += 1
            work.bytes_sent += nbytes

    def allocated(self, device: int, nbytes: int) -> None:
        """Count memory of a device; a negative number for memory that is freed."""
        self._memory[device] += nbytes
        work = self.of(device)
        work.peak_memory = max(work.peak_memory, self._memory[device])

    def devices(self) -> list[DeviceWork]:
        """The counts of all devices that have any, in order."""
        return [self._work[device] for device in sorted(self._work)]
