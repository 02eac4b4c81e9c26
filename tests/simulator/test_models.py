"""The table of GPUs: complete, consistent with itself, and read the way people spell names."""

from __future__ import annotations

import pytest

import weft.errors
from weft.device import models


@pytest.mark.parametrize("name", models.names())
def test_model_is_consistent(name: str) -> None:
    model = models.get(name)
    assert model.source
    assert model.max_threads_per_block <= model.max_threads_per_sm
    assert model.static_shared_per_block <= model.shared_per_block
    assert model.shared_per_block + model.reserved_shared <= model.shared_per_sm < model.l1_per_sm
    assert model.base_mhz is None or model.base_mhz < model.boost_mhz
    assert model.tensor["f16"] > model.fp32_tflops


@pytest.mark.parametrize("name", models.names())
def test_tensor_rates_are_whole_operations_per_sm_and_clock(name: str) -> None:
    """Each rate is a power of two of operations per SM and clock, within the clock's rounding."""
    model = models.get(name)
    for kind, tera in model.tensor.items():
        per_clock = tera * 1e6 / (model.sms * model.boost_mhz)
        nearest = min((2**k for k in range(5, 16)), key=lambda n: abs(n - per_clock))
        assert per_clock == pytest.approx(nearest, rel=0.1), kind


# published single-precision peaks, 10^12 operations a second
PEAKS = {
    "t4": 8.1, "rtx2080ti": 13.4, "a100": 19.5, "a10": 31.2, "rtx3060": 12.7, "rtx3070": 20.3,
    "rtx3090": 35.6, "l4": 30.3, "rtx4090": 82.6, "h100": 66.9, "h200": 66.9, "b200": 75,
}  # fmt: skip


@pytest.mark.parametrize("name", models.names())
def test_peak_from_cores_and_clock_is_the_published_one(name: str) -> None:
    assert models.get(name).fp32_tflops == pytest.approx(PEAKS[name], rel=0.01)


@pytest.mark.parametrize(
    "spelling, key",
    [
        ("h200", "h200"),
        ("sim:h200", "h200"),
        ("sim:RTX 3070", "rtx3070"),
        ("NVIDIA GeForce RTX-4090", "rtx4090"),
        ("Tesla T4", "t4"),
        (models.DEFAULT, "h200"),
    ],
)
def test_spellings(spelling: str, key: str) -> None:
    assert models.get(spelling).key == key


@pytest.mark.parametrize(
    "name, next",
    [
        ("h20", "did you mean 'h200'?"),
        ("rtx3o70", "did you mean 'rtx3070'?"),
        ("", "`weft devices` shows them all"),
        ("voodoo", "`weft devices` shows them all"),
    ],
)
def test_unknown_model(name: str, next: str) -> None:
    with pytest.raises(weft.errors.LaunchError) as caught:
        models.get(name)
    assert caught.value.got == repr(name)
    assert "rtx3070" in caught.value.allowed
    assert caught.value.next == next


@pytest.mark.parametrize("name", models.names())
def test_architecture_to_compile_for(name: str) -> None:
    model = models.get(name)
    major, minor = model.compute_capability
    own = {(9, 0): "compute_90a", (10, 0): "compute_90"}
    assert model.compile_for == own.get((major, minor), f"compute_{major}{minor}")


# transfers of one pin of the memory, 10^9 a second: GDDR5X/6/6X, HBM2e and HBM3/3e
PINS = {
    "t4": 10, "rtx2080ti": 14, "a100": 3.19, "a10": 12.5, "rtx3060": 15, "rtx3070": 14,
    "rtx3090": 19.5, "l4": 12.5, "rtx4090": 21, "h100": 5.24, "h200": 6.25, "b200": 7.5,
}  # fmt: skip


@pytest.mark.parametrize("name", models.names())
def test_memory_bus_and_clock_give_the_published_rate(name: str) -> None:
    """Every front end reports these two; programs compute the bandwidth from them."""
    model = models.get(name)
    assert model.memory_bus_bits % 32 == 0
    assert 2 * model.memory_khz / 1e6 == pytest.approx(PINS[name], rel=0.01)
    bandwidth = 2 * model.memory_khz * 1e3 * model.memory_bus_bits / 8
    assert bandwidth == pytest.approx(model.memory_gb_per_s * 1e9, rel=1e-3)
