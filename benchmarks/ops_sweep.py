"""Times `weft.ops` on calls drawn at random, against PyTorch and torch.compile, on a GPU.

    PYTHONPATH=src python benchmarks/ops_sweep.py --seed 1 --count 60 [--ops softmax,matmul]

The same as `weft bench ops --record benchmarks/records/ops_sweep.jsonl`, with all its options.
"""

from __future__ import annotations

import sys
from pathlib import Path

from weft.cli import app

RECORDS = Path(__file__).parent / "records" / "ops_sweep.jsonl"

if __name__ == "__main__":
    app(["bench", "ops", "--record", str(RECORDS), *sys.argv[1:]])
