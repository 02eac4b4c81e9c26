"""What all tests share: one seed a run, printed at the top, settable by WEFT_SEED."""

from __future__ import annotations

import os
import secrets

os.environ.setdefault("WEFT_SEED", str(secrets.randbelow(2**31)))  # workers of xdist inherit it


def pytest_report_header() -> str:
    return f"fuzzing with WEFT_SEED={os.environ['WEFT_SEED']}"
