"""Facts about NVIDIA's driver from the operating system: its version, and who may read counters."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc/driver/nvidia")
_CAP_SYS_ADMIN = 21


class CounterPermission(NamedTuple):
    """Permission to read the GPU's performance counters, its reason, and how to change it."""

    allowed: bool
    why: str
    fix: str = ""


def driver_version(root: Path = _PROC) -> str:
    """The version of the kernel module, e.g. 580.159.04; nothing where it cannot be read."""
    found = re.search(r"\b\d+\.\d+(\.\d+)?\b", _read(root / "version"))
    return found[0] if found else ""


def counters(root: Path = _PROC) -> CounterPermission:
    """The permission to read counters; profilers get `ERR_NVGPUCTRPERM` without it."""
    setting = re.search(r"RmProfilingAdminOnly:\s*(\d)", _read(root / "params"))
    if setting is None:
        return CounterPermission(False, "unknown: the driver does not show its settings")
    if setting[1] == "0":
        return CounterPermission(True, "yes, to every user (RmProfilingAdminOnly: 0)")
    if _is_admin():
        return CounterPermission(True, "yes, to administrators, as this process is one")
    return CounterPermission(
        False,
        "no: the driver keeps them to administrators (RmProfilingAdminOnly: 1)",
        "the machine's administrator can load the driver with NVreg_RestrictProfilingToAdminUsers=0"
        " (in /etc/modprobe.d, then reboot), or give the container CAP_SYS_ADMIN",
    )


def _is_admin() -> bool:
    """Return whether the process has CAP_SYS_ADMIN, which root in a container may lack."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", _read(Path("/proc/self/status")), re.MULTILINE)
    if found is None:
        return hasattr(os, "geteuid") and os.geteuid() == 0
    return bool(int(found[1], 16) >> _CAP_SYS_ADMIN & 1)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
