"""The life of a block's stages: filled, waited for, read, released, and filled again."""

from __future__ import annotations

import functools
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from folders import ROOT, TESTS
from weft.device.sim.emit.generate import generate
from weft.device.sim.tools.counters.sampling import Sampling
from weft.ptx.parse import parse
from weft.report import stages as report
from weft.report.page import page
from weft.values.stages import Stage

sys.path.insert(0, str(ROOT / "benchmarks"))

from profiled.hopper import CASES
from profiled.launches import arguments, launch

pytestmark = pytest.mark.sim
SOURCE = TESTS / "kernels" / "stages.cu"
HOPPER = ROOT / "benchmarks" / "profiled" / "hopper.cu"
PART = 2048
"""Bytes of a stage of that file."""


@functools.cache
def module() -> weft.Module:
    return weft.cuda(SOURCE, arch="sm_90a", device="sim:h200")


@functools.cache
def ring(stages: int, parts: int = 8, block: int | None = None) -> weft.Profile:
    x, y = np.ones(parts * 512, np.float32), np.zeros(64, np.float32)
    kernel = module().kernel(f"ring<{stages}>")
    profile = weft.profile(kernel[2, 64], x, y, len(x), block=block)
    assert (y == parts * 16).all()
    return profile


@functools.cache
def hopper(title: str, block: int) -> weft.Profile:
    (case,) = (c for c in CASES if c.title == title)
    return weft.profile(launch(case), *arguments(case, lambda array: array), block=block)


def line(p: weft.Profile, instruction: int | None) -> int:
    """The source line of an instruction."""
    (found,) = (i for i in p.instructions if i.index == instruction)
    assert found.line is not None
    return found.line.own.line


def number(words: str, file: Path = SOURCE) -> int:
    """The first line of a file with these words."""
    text = file.read_text().splitlines()
    return next(i for i, row in enumerate(text, 1) if words in row)


def in_turn(stage: Stage) -> bool:
    """True if the moments of all uses of a stage follow one another."""
    moments = [
        x
        for u in stage.uses
        for x in (u.issued, u.filled, u.opened, u.consumed, u.released)
        if x is not None
    ]
    return all(a <= b for a, b in itertools.pairwise(moments))


def test_each_use_of_a_ring() -> None:
    p = ring(2)
    assert p.stages is not None and p.stages.whole and p.stages.block == 0
    assert [(s.offset, len(s.uses)) for s in p.stages.stages] == [(0, 4), (PART, 4)]
    for stage in p.stages.stages:
        assert in_turn(stage)
        for u in stage.uses:
            assert u.nbytes == PART and u.filled > u.issued
            assert line(p, u.copy) == number("// filled") and line(p, u.wait) == number("// waited")
            assert line(p, u.read) == number("// read") and u.consumed is not None
        for u in stage.uses[:-1]:  # nothing is filled after the last one
            assert line(p, u.release) == number("// released") and u.released is not None
        assert stage.uses[-1].released is None


def test_more_stages_hide_more() -> None:
    """With one stage every copy waits for the reader; with four most of them overlap."""
    clocks = {n: ring(n).stages for n in (1, 4)}
    assert clocks[1] is not None and clocks[4] is not None
    assert clocks[1].clocks > 2 * clocks[4].clocks


def test_stages_filled_by_all_threads() -> None:
    x, y = np.ones(4 * 512, np.float32), np.zeros(128, np.float32)
    p = weft.profile(module().pieces[1, 128], x, y, len(x))
    assert (y == 4).all() and p.stages is not None
    assert [(s.offset, [u.nbytes for u in s.uses]) for s in p.stages.stages] == [
        (0, [PART, PART]),
        (PART, [PART, PART]),
    ]
    for stage in p.stages.stages:
        assert in_turn(stage) and all(u.released is None for u in stage.uses)
        for u in stage.uses:
            assert line(p, u.copy) == number("copy_async<") and line(p, u.read) == number(
                "sum += stage"
            )


def test_products_read_their_stages() -> None:
    p = hopper("products", 0)
    s = p.stages
    assert s is not None and [len(x.uses) for x in s.stages] == [3] * 4
    assert all(in_turn(stage) for stage in s.stages)
    products = number("wgmma<__half>(", HOPPER)
    assert {line(p, u.read) for stage in s.stages for u in stage.uses} == {products}
    # 12 steps of two warpgroups, four products each: 16 columns need 20 clocks of shared memory
    assert sum(b - a for a, b in s.tensor) == 12 * 2 * 4 * 20


def test_a_multicast_fills_stages_of_other_blocks() -> None:
    """Each of four blocks loads a quarter of what all of them get."""
    p = hopper("spread to 4 of 4", 6)
    assert p.stages is not None and p.stages.block == 6
    (stage,) = p.stages.stages
    (use,) = stage.uses
    assert use.nbytes == 4 * 4096 and in_turn(stage)
    assert line(p, use.copy) == number("load_box_multicast(", HOPPER)
    assert sum(b - a for a, b in p.stages.copies) < use.filled - use.issued
    missed = hopper("spread to 2 of 4", 5)
    assert missed.stages is None, "the mask leaves rank 1 out"


def test_another_block_is_watched() -> None:
    other = ring(2, 8, 1).stages
    assert other is not None and other.block == 1 and other.stages == ring(2).stages.stages


def test_memory_that_is_written_later_is_no_stage() -> None:
    x, y = np.ones(512, np.float32), np.zeros(64, np.float32)
    p = weft.profile(module().rewritten[1, 64], x, y)
    assert (y == 2).all() and p.stages is not None
    ((use,),) = (stage.uses for stage in p.stages.stages)
    assert line(p, use.read) == number("// first")


def test_only_the_first_events_are_kept() -> None:
    x, y = np.ones(512, np.float32), np.zeros(32, np.float32)
    p = weft.profile(module().often[1, 32], x, y, 40_000)
    assert p.stages is not None and not p.stages.whole
    assert "Only its first events were recorded." in str(p)


def test_views(tmp_path: Path) -> None:
    p = ring(2)
    text = str(p)
    assert "Stages of block 0" in text and "clocks by a model; busy: copies" in text
    (row,) = (x for x in text.splitlines() if x.split()[:4] == ["0", "2", "KiB", "4"])
    words = ("// filled", "// waited", "// read", "// released")
    assert [int(x) for x in row.split()[-4:]] == [number(x) for x in words]
    html = page([p])
    assert "Stages of block 0</h3>" in html and html.count('<rect class="fill"') == 8
    assert html.count('<rect class="used"') == 8 and "copied again" in html
    p.save(tmp_path / "p.json")
    (again,) = weft.Profile.load(tmp_path / "p.json")
    assert again.stages == p.stages and report.chart(again) == report.chart(p)


def test_long_rings_are_cut() -> None:
    """A chart draws the first uses only."""
    p = ring(4, 4 * 150)
    assert p.stages is not None and sum(len(s.uses) for s in p.stages.stages) == 600
    chart = report.chart(p)
    assert chart.count('<rect class="fill"') == report.SHOWN and 'class="stages long"' in chart


def test_other_kernels_have_no_stages() -> None:
    kernel = weft.cuda("__global__ void twice(float* x) { x[threadIdx.x] *= 2; }").twice
    p = weft.profile(kernel[1, 32], np.ones(32, np.float32))
    assert p.stages is None and "Stages" not in str(p) and "Stages of" not in page([p])
    text, _ = generate(parse(kernel.ptx), kernel.entry, (32, 1, 1), observer=Sampling(8, 8))
    assert "stage_event" not in text, "nothing is recorded for them"
