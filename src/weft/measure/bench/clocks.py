"""Monitors clocks, temperature, power and throttling of a GPU during a benchmark."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Any

FIELDS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", "clocks_event_reasons.active")
PERIOD_MS = 50
SLOWED = 0x8 | 0x40 | 0x20 | 0x80
"""Throttle reasons that invalidate a sample: hardware slowdown, thermal (two), power brake."""


@dataclass(frozen=True)
class Sample:
    """The state of the GPU at one time of `time.monotonic`."""

    when: float
    sm_mhz: float
    memory_mhz: float
    celsius: float
    watts: float
    reasons: int


class ClockMonitor:
    """Samples a GPU inside of its `with`; records nothing if nvidia-smi is missing."""

    def __init__(self, device: int = 0) -> None:
        self.samples: list[Sample] = []
        self._command = [
            "nvidia-smi", f"--id={device}", f"--query-gpu={','.join(FIELDS)}",
            "--format=csv,noheader,nounits", f"--loop-ms={PERIOD_MS}",
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ClockMonitor:
        if shutil.which("nvidia-smi"):
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
            self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
            self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            # nvidia-smi loops until it is ended; its output then closes and the reader returns.
            self._process.terminate()
            self._process.wait()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            sample = parse(line, time.monotonic())
            if sample is not None:
                self.samples.append(sample)

    def slowed(self, start: float, end: float) -> bool:
        """True if the GPU was throttled at a sample in this interval."""
        # nvidia-smi reports up to one period late.
        return any(s.reasons & SLOWED for s in self.samples if start <= s.when <= end + 0.05)

    def to_dict(self) -> dict[str, Any]:
        """The median clocks and the peak temperature and power, for a record."""
        if not self.samples:
            return {}
        middle = sorted(self.samples, key=lambda s: s.sm_mhz)[len(self.samples) // 2]
        return {
            "sm_mhz": middle.sm_mhz,
            "memory_mhz": middle.memory_mhz,
            "celsius": max(s.celsius for s in self.samples),
            "watts": max(s.watts for s in self.samples),
            "samples": len(self.samples),
            "throttled_samples": sum(bool(s.reasons & SLOWED) for s in self.samples),
        }


def driver_version() -> str:
    """The driver version, e.g. 580.95.05; empty without nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return ""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    output = subprocess.run(command, capture_output=True, text=True, encoding="utf-8").stdout
    return output.partition("\n")[0].strip()


def parse(line: str, when: float) -> Sample | None:
    """Parse one line of nvidia-smi's table; None if a value is missing."""
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != len(FIELDS):
        return None
    try:
        sm, memory, celsius, watts = (float(p) for p in parts[:4])
        return Sample(when, sm, memory, celsius, watts, int(parts[4], 16))
    except ValueError:  # "[N/A]"
        return None
