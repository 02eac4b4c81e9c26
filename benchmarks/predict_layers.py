"""Judges predicted times by layers of models, whose times in CUDA graphs an H200 has recorded.

    PYTHONPATH=src python benchmarks/predict_layers.py [--kept FOLDER] [WORD ...]

Counts the calls in records/models.jsonl that records/predict_layers.jsonl lacks, all or those with
these words, and prints the errors. Of calls that were recorded more than once the newest counts;
those for which the library has another kernel today are left out, and so are kernels whose blocks
wait for each other. Counting runs some blocks of each launch at the recorded size on the simulated
GPU, as predict.py does. Floats are zero: no kernel's work depends on them.

With `--kept`, counters stay in that folder, and rows of which it has the counters are made anew:
after a change of the model nothing is simulated.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kept
import predict
import torch

from weft.device.sim.run.draft import drafts
from weft.errors import DeviceError, Error
from weft.measure.profile.prediction import judge
from weft.measure.profile.prediction.demand import SampledLaunch
from weft.measure.profile.sampling.blocks import sampling
from weft.ops.models import cases, config
from weft.ops.models.draw import Drawn
from weft.ops.models.named import named
from weft.ops.sweep import measure, run
from weft.ops.sweep.case import Arguments, arguments
from weft.tasks.bench_models import ROTATED

RECORDS = Path(__file__).parent / "records"
RECORD = RECORDS / "predict_layers.jsonl"
SINCE = "2026-11-18"
"""Kernels of earlier records have changed."""
SECONDS = 40
"""A call may take so long to count: a block of a kernel whose blocks stay has much of the work."""
M_MMAP_THRESHOLD = -3
"""The parameter of mallopt for the least bytes that come from the system."""


def recorded() -> dict[str, dict[str, Any]]:
    """The newest result of each call, by its words."""
    lines = map(json.loads, (RECORDS / "models.jsonl").read_text("utf-8").splitlines())
    newest = [line["results"] for line in lines if line["date"] >= SINCE]
    return {r["words"]: r for results in newest for r in results if "graph_us" in r and r["right"]}


def calls(words: list[str], folder: Path | None) -> Iterator[tuple[Drawn, dict[str, Any]]]:
    """Calls that are to be counted, and their results."""
    have = {r["rung"] for r in rows(failed=True) if "failed" in r or predict.is_current(r)}
    if folder is not None:
        have = {name for name in have if not kept.path(folder, name).is_file()}
    models = config.models()
    for name, result in recorded().items():
        if name not in have and all(word in name.split() for word in words):
            yield named(models, [name])[0], result


def made(one: Drawn) -> Arguments:
    """The arguments of a call: integers are drawn, floats are zero."""
    case = cases.case(one.case)
    found = arguments(case, one.work.call, "cpu")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for spec, tensor in zip(one.work.call.tensors, found.tensors, strict=True):
            if spec is not None and tensor.is_floating_point():
                tensor.zero_()
            elif spec is not None:
                tensor.copy_(spec.make("cpu", generator))
    return found


def count(one: Drawn, result: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """The row of a call: what its launches ask of each unit."""
    case, given = cases.case(one.case), made(one)
    plan = run.plan_of(case, given)
    if plan != result["plan"]:
        raise Error(f"the library has another kernel today: {plan}")

    def made_now() -> list[SampledLaunch]:
        with sampling(predict.MODEL) as found, drafts():
            given.of(case.call)
        return found.launches

    found = kept.launches(folder, result["words"], made_now)
    size = sum(t.untyped_storage().nbytes() for t in given.tensors if t is not None)
    # The benchmark rotates through sets of arguments; what few of them touch stays in L2.
    cached = measure.sets_of(size, ROTATED) * predict.touched(found) < predict.WARM
    seconds = result["graph_us"]["weft"] * 1e-6
    names = one.layer.kind, result["words"], str(one.work.call), "CUDA C++"
    return predict.row(*names, seconds, found, cached=cached) | {"plan": plan}


def rows(*, failed: bool = False) -> list[dict[str, Any]]:
    """The rows of the record, also those of calls that could not be counted if wanted."""
    if not RECORD.is_file():
        return []
    every = map(json.loads, RECORD.read_text("utf-8").splitlines())
    return [row for row in every if failed or "failed" not in row]


def _too_long(*_: object) -> None:
    raise Error(f"not counted in {SECONDS} s")


def main() -> None:
    """Count, and print the errors."""
    # Memory comes from the system, as zeros: launches read what blocks that do not run would write.
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 4096)
    signal.signal(signal.SIGALRM, _too_long)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="words of calls, all of which are wanted")
    parser.add_argument("--kept", type=Path, help="the folder of counters")
    asked = parser.parse_args()
    for one, result in calls(asked.words, asked.kept):
        signal.alarm(SECONDS)
        try:
            row = count(one, result, asked.kept)
        except (Error, RuntimeError) as error:
            waits = isinstance(error, DeviceError)
            why = "blocks wait for each other" if waits else str(error).partition("\n")[0]
            row = {"ladder": one.layer.kind, "rung": result["words"], "failed": why}
        finally:
            signal.alarm(0)
        predict.write(RECORD, row)
        said = row.get("failed") or f"{judge.predicted(row) / row['measured']:.2f}"
        print(f"{said} {result['words']}", flush=True)
    print(judge.judge(rows()))


if __name__ == "__main__":
    main()
