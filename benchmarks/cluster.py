"""Times random programs by one worker and by several, in processes and on a Ray of this machine.

    python benchmarks/cluster.py [--workers 2] [--programs 96] [--rounds 3] [--record]

Each round judges the same programs of one seed, first by one worker and then by all of them; the
start of Ray is not part of the time. The ratio is that of the best times. It means something on a
machine that has nothing else to do: the record has the load before each round.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from datetime import date
from pathlib import Path

from weft.cluster.connect import cores
from weft.cluster.pools import cpus
from weft.fuzz.batch import PACK
from weft.fuzz.judge import Batch, Judge

RECORDS = Path(__file__).with_name("records") / "cluster.jsonl"
SEED = 1


def main() -> None:
    """Time both pools and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=cores(), help="of the larger pool")
    parser.add_argument("--programs", type=int, default=96, help="of each worker count")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    parser.add_argument("--record", action="store_true", help=f"append to {RECORDS.name}")
    options = parser.parse_args()
    for address in ("", "local"):
        row = measure(address, options.workers, options.programs, options.rounds)
        print(json.dumps(row))
        if options.record:
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def measure(address: str, workers: int, programs: int, rounds: int) -> dict[str, object]:
    """The best seconds of one worker and of several, and their ratio."""
    best: dict[int, float] = {}
    loads = []
    for count in (1, workers):
        with tempfile.TemporaryDirectory() as folder, cpus(address, count, print) as (pool, _):
            start = Judge(Path(folder)).start
            list(pool([Batch(SEED, 0, PACK)] * count, start=start))  # workers have begun
            for _ in range(rounds):
                loads.append(round(os.getloadavg()[0], 1))
                tasks = [Batch(SEED, first, PACK) for first in range(0, programs, PACK)]
                begin = time.perf_counter()
                answers = dict(pool(tasks, start=start))
                seconds = time.perf_counter() - begin
                assert len(answers) == len(tasks) and all(answers.values())
                best[count] = min(seconds, best.get(count, seconds))
    return {
        "date": date.today().isoformat(),
        "pool": "ray local" if address else "processes",
        "cores": cores(),
        "workers": workers,
        "programs": programs,
        "seconds_one": round(best[1], 2),
        "seconds_all": round(best[workers], 2),
        "ratio": round(best[1] / best[workers], 2),
        "load": loads,
    }


if __name__ == "__main__":
    main()
