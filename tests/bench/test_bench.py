"""Timing without a GPU: what is said, and the parts that need none."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.device import models
from weft.measure.bench import clocks
from weft.measure.bench.bench import Bench, ceiling, interval
from weft.pytest_plugin import no_gpu
from weft.values.timing import Timing


@pytest.mark.skipif(not no_gpu(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_timed() -> None:
    found = weft.bench({"mine": lambda: None}, bytes=4.8e9, device="sim:h200")
    assert not found.timed and not found.timings
    assert found.floor == pytest.approx(1e-3) and found.bound == "memory"
    assert "Not timed: a simulated GPU has no times. Floor on H200" in str(found)


def test_nothing_to_time() -> None:
    with pytest.raises(weft.ArgumentError, match="nothing to time"):
        weft.bench({})


@pytest.mark.parametrize(
    ("moved", "work", "bound"), [(1e12, 1e12, "memory"), (1e9, 1e15, "compute"), (0, 0, "")]
)
def test_the_floor_is_the_larger_of_two_times(moved: float, work: float, bound: str) -> None:
    model = models.get("h200")
    seconds, said = ceiling(model, moved, work, "f32")
    assert said == bound
    assert seconds == max(moved / 4.8e12, work / (model.fp32_tflops * 1e12))


def test_the_interval_holds_the_median() -> None:
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(400):
        low, middle, high = interval(list(rng.standard_normal(50)))
        assert low <= middle <= high
        held += low <= 0 <= high
    assert held > 360, "95 % of them should"


def test_other_precisions_are_marked() -> None:
    times = [
        Timing("mine", 2e-3, 2e-3, 2e-3, 10, 0, "", "f32"),
        Timing("torch", 1e-3, 1e-3, 1e-3, 10, 0, "", "tf32"),
    ]
    said = str(Bench("H200", True, tuple(times)))
    assert "computes in tf32, not f32" in said and "2.00 x the fastest" in said
    with pytest.raises(KeyError, match="mine, torch"):
        Bench("H200", True, tuple(times))["mone"]


def test_clocks_are_read() -> None:
    sample = clocks.parse("1980, 3201, 41, 389.23, 0x0000000000000004\n", 1.0)
    assert sample is not None and (sample.sm_mhz, sample.watts) == (1980.0, 389.23)
    assert not sample.reasons & clocks.SLOWED
    hot = clocks.parse("1200, 3201, 90, 389.23, 0x0000000000000040", 1.0)
    assert hot is not None and hot.reasons & clocks.SLOWED
    assert clocks.parse("[N/A], 3201, 41, 389.23, 0x0", 1.0) is None
    assert clocks.parse("Unable to determine the device handle", 1.0) is None


def test_a_throttled_stretch_is_known() -> None:
    watch = clocks.ClockMonitor()
    watch.samples = [clocks.Sample(t, 1980, 3201, 40, 300, 0x40 if t == 2 else 0) for t in range(4)]
    assert watch.slowed(1.5, 2.5) and not watch.slowed(2.9, 3.1)
    assert watch.to_dict()["throttled_samples"] == 1
