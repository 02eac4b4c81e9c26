"""Fits the constants of `pipelined_model` to records of benchmarks/pipelined_products.py.

    PYTHONPATH=src python benchmarks/fit_pipelined.py benchmarks/records/pipelined_products.jsonl

Times of the model itself are compared with measured ones, with other constants. A random search
changes some of them at a time and keeps what lowers the error: that of candidates close to the
fastest of their call counts most, as others are never chosen. Calls are halved by their sizes; each
half is fitted alone and judged by the choices of the other half. The last constants are fitted to
all calls. A launch in a graph takes another time than one alone, so its seconds are fitted and
left out.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import random
import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import torch

from weft.ops.core.plan import Buffer, Pointer
from weft.ops.core.target import named
from weft.ops.families.matmul import pipelined_model as model
from weft.ops.families.matmul.pipelined_model import PipelinedTile
from weft.ops.families.matmul.product import ACTIVATIONS, Bias, Operand, Product

GPU = named("sim:h200")
NAMES = (
    "REACH", "INSTRUCTION", "SM_RATE", "L2_RATE", "SLABS", "CROSSING", "LATENCY", "OVER", "STORE",
    "TURNED", "ANYWHERE", "BESIDE", "SPLIT", "SHARE", "ALONE", "ROUND", "BEGINS", "AGAIN_READ",
    "BY_WARPS", "BOXES", "AGAIN",
)  # fmt: skip
LAUNCH = "launch"
CLOSE, WEIGHT = 1.12, 3.0
"""Candidates that take at most so much longer than the fastest of a call count so much more."""
LOSS = 20.0
"""Weight of the logarithm of a choice's time."""
PULL = 0.02
"""Weight of the square of a constant's logarithmic distance from where it began."""
NAME = re.compile(
    r"(?P<bm>\d+) x (?P<bn>\d+)(?P<turned>, turned)?(?:, (?P<resident>\d) an SM)?"
    r"(?P<turns>, in turns)?(?P<boxes>, boxes)?(?:, K in (?P<splits>\d))?, pipelined"
)
ORDERS = {"nt": (True, True), "nn": (True, False), "tn": (False, False), "tt": (False, True)}
Constants = dict[str, float]
Key = tuple[Any, ...]


class Row(NamedTuple):
    """A candidate that was timed: what the model takes, and microseconds."""

    key: Key
    name: str
    tile: PipelinedTile
    product: Product
    k_major: tuple[bool, bool]
    turned: bool
    us: float
    peer: float

    def modelled(self, launch: float) -> float:
        """Microseconds by the model as it is now."""
        stage, slabs = self.tile.stage(*self.k_major), self.tile.slabs(*self.k_major)
        seconds = self.tile.time(self.product, GPU, stage, self.turned, slabs)
        return (seconds - GPU.launch + launch) * 1e6


def read(path: Path, runs: list[int]) -> list[Row]:
    """The rows of pipelined products of 16-bit elements, of these runs."""
    rows = []
    for line in path.read_text().splitlines():
        r = json.loads(line)
        parts = NAME.fullmatch(r["name"])
        if parts is None or r.get("run") not in runs or r.get("sums"):
            continue
        m, n, (a_k, b_k) = r["m"], r["n"], ORDERS[r["order"]]
        size = (m, n)
        if parts["turned"]:
            m, n, a_k, b_k = n, m, b_k, a_k
        tile = PipelinedTile(
            int(parts["bm"]), int(parts["bn"]), int(parts["resident"] or 1),
            int(parts["splits"] or 1), bool(parts["turns"]), bool(parts["boxes"]),
        )  # fmt: skip
        x = Operand(Pointer(0), 1, 1, 0, 16)
        row_c, column_c = (1, m) if parts["turned"] else (n, 1)
        bias = Bias(Pointer(0), 0, 0, 1) if r["bias"] else None
        p = Product(
            1, m, n, r["k"], x, x, bias, row_c, column_c, ACTIVATIONS.index(r["activation"]),
            Buffer(size, torch.bfloat16),
        )  # fmt: skip
        key = (*size, r["k"], r["order"], r["bias"], r["activation"], r.get("gaps"), r["run"])
        peer = r["us"] * r.get("ratio", math.nan)  # run 5 timed none
        turned = bool(parts["turned"])
        if turned and m % 8 and r["run"] < 4:
            continue  # they were stored one by one
        rows.append(Row(key, r["name"], tile, p, (a_k, b_k), turned, r["us"], peer))
    return rows


def by_call(rows: list[Row]) -> dict[Key, list[Row]]:
    """The rows of each call."""
    found: dict[Key, list[Row]] = collections.defaultdict(list)
    for row in rows:
        found[row.key].append(row)
    return found


def now() -> Constants:
    """The constants of the model."""
    return {name: getattr(model, name) for name in NAMES} | {LAUNCH: 2e-6}


def use(constants: Constants) -> None:
    """Change the model."""
    for name in NAMES:
        setattr(model, name, constants[name])


def error(rows: list[Row], weights: list[float], constants: Constants, first: Constants) -> float:
    """The weighted mean of the logarithmic errors and of the choices' times, and the pull to where
    the search began.
    """
    use(constants)
    total, chosen = 0.0, dict[Key, tuple[float, float]]()
    for row, weight in zip(rows, weights, strict=True):
        modelled = row.modelled(constants[LAUNCH])
        total += weight * abs(math.log(modelled / row.us))
        chosen[row.key] = min(chosen.get(row.key, (math.inf, 0.0)), (modelled, row.us))
    total += LOSS * sum(math.log(us) for _, us in chosen.values())
    pull = sum(math.log(constants[name] / first[name]) ** 2 for name in first) / len(first)
    return total / len(rows) + PULL * pull


def fit(rows: list[Row], first: Constants, trials: int) -> Constants:
    """The constants of the least error that a random search finds."""
    best = {key: min(row.us for row in each) for key, each in by_call(rows).items()}
    weights = [WEIGHT if row.us < CLOSE * best[row.key] else 1.0 for row in rows]
    draw, width = random.Random(0), 0.3
    found, least = first, error(rows, weights, first, first)
    for trial in range(trials):
        moved = {
            name: value * math.exp(draw.gauss(0, width)) if draw.random() < 0.25 else value
            for name, value in found.items()
        }
        changed = error(rows, weights, moved, first)
        if changed < least:
            found, least = moved, changed
        if trial % (trials // 6) == trials // 6 - 1:
            width *= 0.6
    return found


class Judgement(NamedTuple):
    """The quality of the choice: times relative to the fastest candidate and to the peer's."""

    calls: int
    mean: float
    off: int
    peer: float
    wrong: list[str]


def judge(rows: list[Row], constants: Constants) -> Judgement:
    """Choose a candidate for each call."""
    use(constants)
    late, ratio, wrong = [], [], []
    for each in by_call(rows).values():
        chosen = min(each, key=lambda row: row.modelled(constants[LAUNCH]))
        best = min(each, key=lambda row: row.us)
        late.append(math.log(chosen.us / best.us))
        if not math.isnan(chosen.peer):
            ratio.append(math.log(chosen.peer / chosen.us))
        if late[-1] > 0.03:
            wrong.append(
                f"{'x'.join(map(str, chosen.key[:3]))} {chosen.key[3]}: {chosen.name} "
                f"{chosen.us:.1f} ({chosen.modelled(constants[LAUNCH]):.1f}), {best.name} "
                f"{best.us:.1f} ({best.modelled(constants[LAUNCH]):.1f})"
            )
    mean, peer = (math.exp(sum(x) / len(x)) for x in (late, ratio))
    return Judgement(len(late), mean, len(wrong), peer, wrong)


def main() -> None:
    """Fit halves and judge them by each other, then fit all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("record", type=Path)
    parser.add_argument("--runs", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--trials", type=int, default=3000)
    given = parser.parse_args()
    rows, first = read(given.record, given.runs), now()
    halves: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        halves[zlib.crc32(repr(row.key[:4]).encode()) % 2].append(row)
    print(f"{len(rows)} rows; constants as they are: {judge(rows, first)[:4]}")
    for fitted, other in (halves, halves[::-1]):
        constants = fit(fitted, first, given.trials)
        print(f"other half: {judge(other, constants)[:4]}; itself {judge(fitted, constants)[:4]}")
    constants = fit(rows, first, given.trials)
    result = judge(rows, constants)
    print(f"all: {result[:4]}", *result.wrong, sep="\n")
    print({name: float(f"{value:.3g}") for name, value in constants.items()})


if __name__ == "__main__":
    main()
