"""Times candidates of convolutions, most of 16 bits, and cuDNN, on layers of public models.

    PYTHONPATH=src python benchmarks/conv_candidates.py --record FILE.jsonl
    PYTHONPATH=src python benchmarks/conv_candidates.py --only "64->64 56" --passes forward --most 8
    PYTHONPATH=src python benchmarks/conv_candidates.py --layers depthwise,patches --formats cl

Processes first compile and check all candidates, against cuDNN and against double precision.
Then each call is timed by replays of CUDA graphs in turns: candidates, and cuDNN's fastest
algorithm. The op as it chooses is also timed eagerly beside PyTorch. One line for each call is
appended to the record.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import math
import multiprocessing
import os
import random
import re
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from weft.measure.bench.clocks import driver_version
from weft.ops.core import library
from weft.ops.core.choose import Candidate
from weft.ops.core.runner import runner
from weft.ops.sweep.time import as_called

PASSES = ("forward", "input", "weight")
LAUNCHES, ROUNDS = 8, 7
KINDS = ("boxes", "patches", "winograd", "depthwise tiles", "channels last", "pipelined", "")
"""Kinds of candidates by a word of their names; the last one is all others."""
NEAR = 1.4
"""Modelled times of candidates that are timed, relative to the least."""


class Layer(NamedTuple):
    """A convolution: channels, extent, filters, taps, stride, images; `single`: of float32."""

    c: int
    size: int
    k: int
    taps: int
    stride: int = 1
    batch: int = 64
    depthwise: bool = False
    single: bool = False

    @property
    def pad(self) -> int:
        return self.taps // 2 if self.taps > self.stride or self.taps == 1 else 0

    @property
    def groups(self) -> int:
        return self.c if self.depthwise else 1

    def __str__(self) -> str:
        words = f"{self.c}->{self.k} {self.size} k{self.taps}s{self.stride} n{self.batch}"
        return words + " depthwise" * self.depthwise + " fp32" * self.single


def _depthwise(c: int, size: int, taps: int, stride: int = 1, batch: int = 32) -> Layer:
    return Layer(c, size, c, taps, stride, batch, depthwise=True)


RESNET50 = (
    *(Layer(64, 56, 64, 3), Layer(128, 56, 128, 3, 2), Layer(128, 28, 128, 3)),
    *(Layer(256, 28, 256, 3, 2), Layer(256, 14, 256, 3), Layer(512, 14, 512, 3, 2)),
    *(Layer(512, 7, 512, 3), Layer(3, 224, 64, 7, 2)),
    *(Layer(256, 56, 512, 1, 2), Layer(512, 28, 1024, 1, 2), Layer(1024, 14, 2048, 1, 2)),
    *(Layer(64, 56, 64, 1), Layer(64, 56, 256, 1), Layer(256, 56, 64, 1), Layer(256, 56, 128, 1)),
    *(Layer(128, 28, 512, 1), Layer(512, 28, 128, 1), Layer(512, 28, 256, 1)),
    *(Layer(256, 14, 1024, 1), Layer(1024, 14, 256, 1), Layer(1024, 14, 512, 1)),
    *(Layer(512, 7, 2048, 1), Layer(2048, 7, 512, 1)),
)
SETS = {
    "resnet50": RESNET50,
    "depthwise": (  # of EfficientNet-B0, MobileNetV3 and ConvNeXt
        *(_depthwise(32, 112, 3), _depthwise(96, 112, 3, 2), _depthwise(144, 56, 5, 2)),
        *(_depthwise(480, 14, 5), _depthwise(672, 14, 5, 2), _depthwise(1152, 7, 5)),
        *(_depthwise(96, 56, 7), _depthwise(384, 14, 7), _depthwise(768, 7, 7, batch=16)),
    ),
    "patches": (  # of ViT-B/16, ViT-L/14, DINOv2 and Stable Diffusion 3
        *(Layer(3, 224, 768, 16, 16, 8), Layer(3, 224, 768, 16, 16, 100)),
        *(Layer(3, 224, 1024, 14, 14, 128), Layer(3, 518, 1024, 14, 14, 8)),
        Layer(16, 128, 1536, 2, 2, 16),
    ),
    "tails": (  # of DINOv2, EfficientNet-B0, Stable Diffusion, ResNet-18, ConvNeXt, wav2vec 2.0
        *(Layer(3, 518, 1024, 14, 14, 2, single=True), Layer(3, 224, 384, 16, 16, 2, single=True)),
        *(Layer(3, 224, 32, 3, 2, 100), Layer(32, 112, 16, 1, batch=1)),
        *(Layer(640, 64, 320, 3, batch=1, single=True), Layer(960, 128, 320, 3, batch=12)),
        *(Layer(512, 7, 512, 3, batch=100, single=True), Layer(2560, 16, 1280, 3, batch=8)),
        *(_depthwise(768, 7, 7, batch=16), _depthwise(384, 14, 7)),
    ),
    "small": (  # one tap, few tiles
        *(Layer(240, 14, 80, 1, batch=32), Layer(320, 7, 1280, 1, batch=3)),
        Layer(1152, 7, 320, 1, batch=32),
    ),
}


class Work(NamedTuple):
    layer: Layer
    which: str
    last: bool

    def __str__(self) -> str:
        return f"{'cl' if self.last else 'nchw'} {self.layer} {self.which}"


class Call(NamedTuple):
    """The op, its arguments, its tensors, and the same by torch, of tensors of any dtype."""

    op: str
    args: tuple[Any, ...]
    tensors: int
    torch: Callable[..., Any]


def call(work: Work, batch: int) -> Call:
    layer, last = work.layer, work.last
    torch.backends.cudnn.allow_tf32 = False
    order = torch.channels_last if last else torch.contiguous_format
    pad = layer.pad
    out = (layer.size + 2 * pad - layer.taps) // layer.stride + 1
    generator = torch.Generator("cuda").manual_seed(1)

    def made(*size: int) -> Any:
        x = torch.randn(size, device="cuda", generator=generator)
        return (x if layer.single else x.half()).contiguous(memory_format=order)

    x = made(batch, layer.c, layer.size, layer.size)
    groups = layer.groups
    weight = made(layer.k, layer.c // groups, layer.taps, layer.taps)
    options = ([layer.stride] * 2, [pad] * 2, [1, 1])
    rest = (*options, groups, "fp32")
    if work.which == "forward":
        args: tuple[Any, ...] = (x, weight, None, *rest)
        return Call("conv2d", args, 3, lambda x, w, _: torch.conv2d(x, w, None, *options, groups))
    dy = made(batch, layer.k, out, out)
    wants = [work.which == "input", work.which == "weight", False]

    def backward(dy: Any, x: Any, weight: Any) -> Any:
        results = torch.ops.aten.convolution_backward(
            dy, x, weight, None, *options, False, [0, 0], groups, wants
        )
        return results[wants.index(True)]

    if work.which == "input":
        args = (dy, weight, list(x.shape), *rest)
        return Call("conv_backward_input", args, 2, lambda dy, w: backward(dy, x.to(dy.dtype), w))
    args = (dy, x, list(weight.shape), *rest)
    return Call("conv_backward_weight", args, 2, lambda dy, x: backward(dy, x, weight.to(dy.dtype)))


def candidates(made: Call, most: int) -> list[Candidate]:
    """The cheapest of each kind, if they are near the cheapest of all."""
    function = library.function(made.op)
    request = function.request(*function.bound(made.args, {}))
    ranked = sorted(function.definition.candidates(request), key=lambda c: c.cost)
    ranked = [c for c in ranked if c.cost < NEAR * ranked[0].cost]
    found: list[Candidate] = []
    for kind in KINDS:
        own = [c for c in ranked if next(word for word in KINDS if word in c.name) == kind]
        found += own[: max(1, most // 2) if kind in ("pipelined", "") else most]
    return found


def error(got: Any, want: Any) -> float:
    return float((got.double() - want).norm() / want.norm())


def check(task: tuple[Work, int]) -> tuple[str, dict[str, float]]:
    """Errors of all candidates and of cuDNN, relative to double precision."""
    work, most = task
    made = call(work, work.layer.batch)
    tensors = made.args[: made.tensors]
    found = {}
    small = call(work, min(4, work.layer.batch))
    wide = [None if t is None else t.double() for t in small.args[: small.tensors]]
    want = small.torch(*wide)
    for candidate in candidates(made, most):
        run = runner(candidate.build(), made.tensors, tensors[0].device)
        first, again = run(*tensors), run(*tensors)
        torch.cuda.synchronize()
        if not torch.equal(first, again):
            found[candidate.name] = math.nan
            continue
        theirs = made.torch(*tensors)
        found[candidate.name] = error(first, theirs.double())
    choice = library.function(small.op).call(*small.args)
    found["chosen, batch 4"] = error(choice, want)
    found["cuDNN, batch 4"] = error(small.torch(*small.args[: small.tensors]), want)
    return str(work), found


def graph(run: Callable[[], Any]) -> Any:
    run()
    torch.cuda.synchronize()
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        for _ in range(LAUNCHES):
            run()
    made.replay()
    return made


def timed(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds of each, by graphs that take turns."""
    graphs = {name: graph(run) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        turns = list(graphs)
        random.shuffle(turns)
        for name in turns:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            samples[name].append(float(start.elapsed_time(end)) * 1e3 / LAUNCHES)
    return {name: round(statistics.median(times), 2) for name, times in samples.items()}


def measure(work: Work, most: int, errors: dict[str, float], eager: bool) -> dict[str, Any]:
    made = call(work, work.layer.batch)
    tensors = made.args[: made.tensors]
    device = tensors[0].device
    found = [c for c in candidates(made, most) if errors.get(c.name, 1.0) < 2e-3]
    runs: dict[str, Callable[[], Any]] = {}
    for candidate in found:
        run = runner(candidate.build(), made.tensors, device)
        runs[candidate.name] = functools.partial(run, *tensors)
    runs["cuDNN"] = lambda: made.torch(*tensors)
    times = timed(runs)
    function = library.function(made.op)
    used = function.choice(function.request(*function.bound(made.args, {}))).used
    row = {
        "call": str(work), "chosen": used.name, "us": times, "errors": errors,
        "modelled": {c.name: round(1e6 * c.cost, 2) for c in found},
    }  # fmt: skip
    if eager:
        ours, theirs = as_called([lambda: function.call(*made.args), runs["cuDNN"]])
        row["eager"] = {"weft": round(1e6 * ours, 2), "torch": round(1e6 * theirs, 2)}
    return row


def show(row: dict[str, Any]) -> None:
    us = dict(row["us"])
    peer = us.pop("cuDNN")
    best = sorted(us, key=lambda name: us[name])[:3]
    chosen = peer / us[row["chosen"]] if row["chosen"] in us else math.nan
    called = row["eager"]["torch"] / row["eager"]["weft"] if "eager" in row else math.nan
    print(
        f"{row['call']:32} cuDNN {peer:7.1f}  chosen {chosen:5.2f}  eager {called:5.2f}  "
        + "; ".join(f"{name} {us[name]:.1f} ({peer / us[name]:.2f})" for name in best),
        flush=True,
    )


def checked(works: list[Work], most: int, jobs: int, seconds: float) -> dict[str, dict[str, float]]:
    """The errors of all calls, found by several processes."""
    found: dict[str, dict[str, float]] = {}
    context = multiprocessing.get_context("spawn")
    pool = context.Pool(jobs)
    results = pool.imap_unordered(check, [(w, most) for w in works])
    end = time.monotonic() + seconds
    for _ in works:
        try:
            name, errors = results.next(timeout=max(0.1, end - time.monotonic()))
            found[name] = errors
        except multiprocessing.TimeoutError:
            break
        except Exception as problem:  # one call that fails leaves the others
            print(f"failed: {problem!r:.600}", flush=True)
    pool.terminate()
    for work in works:
        if str(work) not in found:
            print(f"unchecked: {work}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--passes", default=",".join(PASSES))
    parser.add_argument("--formats", default="cl,nchw")
    parser.add_argument("--layers", default="resnet50", help=", ".join(SETS))
    parser.add_argument("--only", default="", help="a regular expression for calls")
    parser.add_argument("--most", type=int, default=4, help="candidates by boxes of a call")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--check", type=float, default=60, help="seconds of all checks")
    parser.add_argument("--seconds", type=float, default=150, help="of everything")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    threading.Timer(options.seconds, lambda: os._exit(3)).start()
    torch.backends.cudnn.benchmark = True
    works = [
        Work(layer, which, last == "cl")
        for last in options.formats.split(",")
        for which in options.passes.split(",")
        for name in options.layers.split(",")
        for layer in SETS[name]
        if not (name == "resnet50" and which == "input" and layer.c == 3)
    ]
    works = [w for w in works if re.search(options.only, str(w))]
    begin = time.monotonic()
    errors = checked(works, options.most, options.jobs, options.check)
    print(f"{len(errors)} of {len(works)} calls checked, {time.monotonic() - begin:.0f} s")
    for name, own in errors.items():
        bad = {k: f"{v:.1e}" for k, v in own.items() if not v < 2e-3}
        if bad:
            print(f"WRONG {name}: {bad}", flush=True)
    facts = {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver_version(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    for work in works:
        if str(work) not in errors:
            continue
        row = measure(work, options.most, errors[str(work)], work.which == "forward")
        show(row)
        if options.record:
            with options.record.open("a") as file:
                file.write(json.dumps(facts | row) + "\n")
        torch.cuda.empty_cache()
    os._exit(0)


if __name__ == "__main__":
    main()
