"""The work of one GPU of a program with several: what it sent, and the memory that it needed."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGES = ("ncclSend", "ncclRecv")
"""Calls of NCCL between two ranks; all others are collective."""


@dataclass
class DeviceWork:
    """Counts of one simulated GPU.

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
