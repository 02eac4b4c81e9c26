"""Installs the wheel of a folder as a user does, and runs a first kernel.

    python scripts/try_wheel.py dist

The wheel is installed with its dependencies into a fresh virtual environment of this Python. The
commands run in an empty folder, with an empty cache and without PYTHONPATH, so that only the wheel
is used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

KERNEL = '''\
import numpy as np
import weft

module = weft.cuda("""
#include <weft/warp.cuh>
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
""")
x = np.arange(32, dtype=np.float32)
module.twice[1, 32](x)
assert (x == 2 * np.arange(32)).all()
print("first kernel:", weft.__file__)
'''


def main(folder: str) -> None:
    """Install the wheel and run every command; a failure ends the script."""
    (wheel,) = Path(folder).resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as home:
        empty, scripts = Path(home) / "empty", Path(home) / "venv" / "bin"
        empty.mkdir()
        venv.create(scripts.parent, with_pip=True)
        removed = ("PYTHONPATH", "WEFT_CACHE_DIR")
        environment = {k: v for k, v in os.environ.items() if k not in removed}
        environment["WEFT_CACHE_DIR"] = str(Path(home) / "cache")

        def run(*command: object) -> None:
            print("$", *command, flush=True)
            subprocess.run(list(map(str, command)), cwd=empty, env=environment, check=True)

        run(scripts / "python", "-m", "pip", "install", "--quiet", wheel)
        for command in (["weft"], ["weft-gpu"], ["python", "-m", "weft"]):
            run(scripts / command[0], *command[1:], "--version")
        run(scripts / "weft", "tour")
        (empty / "kernel.py").write_text(KERNEL, encoding="utf-8")
        run(scripts / "python", "kernel.py")
        run(scripts / "weft", "climb", "vecadd", "--to", "1")
        run(scripts / "weft", "learn")


if __name__ == "__main__":
    main(*sys.argv[1:])
