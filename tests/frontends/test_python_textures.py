"""Textures and surfaces of kernels that Python launches; `--device gpu` runs the same on a GPU."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import devices
import nvcc
import weft
from weft.frontends.textures.structures import ADDRESSES, FILTERS

# One module for all cases: compiling costs more than the launches.
SOURCE = r"""
__global__ void line(cudaTextureObject_t t, const float* at, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = tex1D<float>(t, at[threadIdx.x]);
}
__global__ void plane(cudaTextureObject_t t, const float* at, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = tex2D<float>(t, at[threadIdx.x], at[n + threadIdx.x]);
}
__global__ void box(cudaTextureObject_t t, const float* at, float* y, int n) {
    int i = threadIdx.x;
    y[i] = tex3D<float>(t, at[i], at[n + i], at[2 * n + i]);
}
__global__ void volume(cudaTextureObject_t t, float* y) {
    y[threadIdx.x] = tex3D<float>(t, threadIdx.x % 2 + 0.5f, 1.5f, threadIdx.x / 2 + 0.5f);
}
__global__ void layers(cudaTextureObject_t t, float* y) {
    y[threadIdx.x] = tex2DLayered<float>(t, 1.5f, 0.5f, threadIdx.x);
}
__global__ void faces(cudaTextureObject_t t, float* y) {
    float sign = threadIdx.x % 2 ? -1.f : 1.f;
    int axis = threadIdx.x / 2;
    y[threadIdx.x] = texCubemap<float>(t, axis == 0 ? sign : 0, axis == 1 ? sign : 0,
                                       axis == 2 ? sign : 0);
}
__global__ void colours(cudaTextureObject_t t, float4* y) {
    y[threadIdx.x] = tex2D<float4>(t, threadIdx.x + 0.5f, 1.5f);
}
__global__ void numbers(cudaTextureObject_t t, int* y, int first) {
    y[threadIdx.x] = tex1Dfetch<int>(t, int(threadIdx.x) + first);
}
__global__ void transpose(cudaTextureObject_t t, cudaSurfaceObject_t s) {
    short2 v = tex2D<short2>(t, threadIdx.x, threadIdx.y);
    surf2Dwrite(make_short2(v.y, v.x), s, threadIdx.y * sizeof(short2), threadIdx.x);
}
"""
Device = devices.Sim | devices.Gpu


pytestmark = nvcc.needed


@pytest.fixture(scope="module")
def module() -> Any:
    return weft.cuda(SOURCE)


def _line(text: str) -> int:
    """The line of the source that has a text."""
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


def _reached(index: np.ndarray[Any, Any], n: int, mode: str) -> np.ndarray[Any, Any]:
    """The texel that an index means; -1 outside with a border."""
    if mode == "wrap":
        return index % n
    if mode == "mirror":
        return np.minimum(index % (2 * n), 2 * n - 1 - index % (2 * n))
    inside = (index >= 0) & (index < n)
    return np.where(inside, index, -1) if mode == "border" else np.clip(index, 0, n - 1)


def _linear(x: np.ndarray[Any, Any], at: Any, mode: str, scale: int) -> np.ndarray[Any, Any]:
    """Linear filtering in one dimension; the weights have eight bits of fraction."""
    place = at.astype(np.float64) * scale - 0.5
    weight = np.round((place - np.floor(place)) * 256) / 256
    padded = np.append(x.astype(np.float64), -7.0)
    low, high = (padded[_reached(np.floor(place).astype(int) + i, x.size, mode)] for i in (0, 1))
    return low + weight * (high - low)


@pytest.mark.parametrize("filter", ["nearest", "linear"])
@pytest.mark.parametrize("mode", ADDRESSES)
def test_addresses_and_filters(mode: str, filter: str, module: Any, device: Device) -> None:
    x = np.array([3, -1, 4, 1.5, 9], np.float32)
    # Eighths, which eight bits of weight hold exactly, and no edge between two texels.
    at = ((np.arange(-21, 43, 2) + 0.5) / 8 / x.size).astype(np.float32)
    t = weft.texture(device.array(x), address=mode, filter=filter, normalized=True, border=-7.0)
    y, places = device.array(np.zeros(at.size, np.float32)), device.array(at)
    module.line[1, 32](t, places, y, at.size)
    if filter == "nearest":
        texels = _reached(np.floor(at * x.size).astype(int), x.size, mode)
        expected = np.append(x, np.float32(-7))[texels]
        np.testing.assert_array_equal(device.read(y), expected)
    else:
        expected = _linear(x, at, mode, x.size)
        np.testing.assert_allclose(device.read(y), expected, atol=0.06)  # a step of the weight


def test_shapes(module: Any, device: Device) -> None:
    def run(kernel: Any, threads: int, *args: Any, **how: Any) -> list[float]:
        array, *rest = args
        y = device.array(np.zeros(threads, np.float32))
        kernel[1, threads](weft.texture(device.array(array), **how), *rest, y)
        return list(device.read(y).tolist())

    box = np.arange(2 * 2 * 3, dtype=np.float32).reshape(2, 2, 3)  # (z, y, x)
    assert run(module.volume, 4, box) == [3, 4, 9, 10]
    assert run(module.layers, 2, box, layered=True) == [1, 7]
    cube = np.repeat(np.arange(6, dtype=np.float32), 4).reshape(6, 2, 2)
    assert run(module.faces, 6, cube, cube=True) == [0, 1, 2, 3, 4, 5]

    bytes_ = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4) * 10
    rgba = device.array(np.zeros((3, 4), np.float32))
    module.colours[1, 3](weft.texture(device.array(bytes_), channels=4, read="normalized"), rgba)
    np.testing.assert_allclose(device.read(rgba) * 255, bytes_[1], rtol=1e-6)

    # rows of linear memory, which a texture holds at a pitch of its own
    flat = np.arange(35, dtype=np.float32).reshape(5, 7)
    at = np.array([0.5, 6.5, 3.5, 0.5, 4.5, 1.5], np.float32)
    y, places = device.array(np.zeros(3, np.float32)), device.array(at)
    module.plane[1, 3](weft.texture(device.array(flat), linear=True), places, y, 3)
    assert device.read(y).tolist() == [0, 34, 10]


def test_linear_memory_surfaces_and_updates(module: Any, device: Device) -> None:
    numbers = device.array(np.arange(5, dtype=np.int32))
    t = weft.texture(numbers, linear=True)
    y = device.array(np.zeros(4, np.int32))
    module.numbers[1, 4](t, y, 2)
    assert device.read(y).tolist() == [2, 3, 4, 0]  # zero outside
    t.update(device.array(np.array([9, 8, 7, 6, 5], np.int32)))
    module.numbers[1, 4](t, y, 0)
    assert device.read(y).tolist() == [9, 8, 7, 6]

    pairs = np.arange(12, dtype=np.int16).reshape(2, 3, 2)
    source = weft.texture(device.array(pairs), channels=2)
    s = weft.surface(device.array(np.zeros((3, 2, 2), np.int16)), channels=2)
    module.transpose[1, (3, 2)](source, s)
    out = s.read(device.array(np.ones((3, 2, 2), np.int16)))
    np.testing.assert_array_equal(device.read(out), pairs.transpose(1, 0, 2)[:, :, ::-1])
    again = weft.texture(s, channels=2)  # of the same texels
    module.transpose[1, (2, 3)](again, weft.surface(device.array(pairs), channels=2))
    assert again.texels is s.texels
    assert repr(again).endswith(": 2 x 3, 2 x int16>")


PLACES = 256


@pytest.mark.gpu
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_fetches_have_the_bits_of_the_simulator(dims: int, module: Any) -> None:
    """Every address mode, filter and type, at random places."""
    rng, gpu = np.random.default_rng(5), devices.Gpu()
    kernel = (module.line, module.plane, module.box)[dims - 1]
    for mode, filter, normalized, dtype in itertools.product(
        ADDRESSES, FILTERS, (False, True), ("float32", "float16", "uint8", "int16")
    ):
        if mode in ("wrap", "mirror") and not normalized:
            continue
        texels = rng.integers(0, 200, rng.integers(1, 9, dims)).astype(dtype)
        at = rng.uniform(-1.5, 2.5, 3 * PLACES).astype(np.float32) * (1 if normalized else 5)
        read = "normalized" if dtype in ("uint8", "int16") else "element"
        how = {"address": mode, "filter": filter, "normalized": normalized, "read": read}
        results = []
        for device in (devices.Sim(), gpu):
            t = weft.texture(device.array(texels), border=0.25, **how)
            y = device.array(np.zeros(PLACES, np.float32))
            kernel[1, PLACES](t, device.array(at), y, PLACES)
            results.append(device.read(y).view(np.uint32))
        np.testing.assert_array_equal(*results, f"{texels.shape} {dtype} {how}")


@pytest.mark.gpu
def test_a_texture_of_the_other_device_is_refused(module: Any) -> None:
    t = weft.texture(np.arange(5, dtype=np.int32), linear=True)
    with pytest.raises(weft.ArgumentError, match="is not where the other arrays are"):
        module.numbers[1, 4](t, devices.Gpu().array(np.zeros(4, np.int32)), 0)


@pytest.mark.sim
def test_the_sanitizer_names_the_line(module: Any) -> None:
    t = weft.texture(np.arange(5, dtype=np.int32), linear=True)
    y = np.zeros(4, np.int32)
    module.numbers[1, 4](t, y, 1, sanitize=True)
    for first, texel in ((2, 5), (-3, -3)):
        with pytest.raises(weft.SanitizerError, match=rf"texel {texel} in numbers") as caught:
            module.numbers[1, 4](t, y, first, sanitize=True)
        assert f"kernel.cu:{_line('tex1Dfetch')}" in str(caught.value)
        assert "texels 0 to 4" in str(caught.value)
    pairs = weft.texture(np.zeros((2, 3, 2), np.int16), channels=2)
    small = weft.surface(np.zeros((2, 2, 2), np.int16), channels=2)
    with pytest.raises(weft.IllegalAddress, match=r"byte 0 of row 2.*") as fault:
        module.transpose[1, (3, 2)](pairs, small)
    assert f"kernel.cu:{_line('surf2Dwrite')}" in fault.value.where
    handle = int(weft.texture(np.zeros(4, np.int32), linear=True))
    with pytest.raises(weft.IllegalAddress, match="was destroyed or never made"):
        module.numbers[1, 4](handle, y, 0)


@pytest.mark.sim
@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.zeros(4), {}, "cannot have this type"),
        (np.zeros((4, 3), np.float32), {"channels": 3}, "none that a texel can have"),
        (np.zeros((4, 3), np.float32), {"channels": 4}, "must have 4 channels"),
        (np.zeros((4, 4), np.float32)[:, ::2], {}, "not contiguous"),
        (np.zeros((5, 2, 2), np.float32), {"cube": True}, "faces of a cube"),
        (np.zeros((2, 2, 2, 2), np.float32), {}, "cannot be a texture"),
        (np.zeros((0, 2), np.float32), {}, "cannot be a texture"),
        (np.zeros((2, 2, 2), np.float32), {"linear": True}, "one or two dimensions"),
        (np.zeros(4, np.float32), {"filter": "cubic"}, "filter= is unknown"),
        (np.zeros(4, np.float32), {"address": "repeat"}, "address= is unknown"),
        (np.zeros(4, np.float32), {"address": "wrap"}, "needs normalized coordinates"),
        (np.zeros(4, np.int32), {"filter": "linear"}, "integers are not filtered"),
        (np.zeros(4, np.int32), {"read": "normalized"}, "8 and 16 bits"),
        (np.zeros(4, np.float32), {"linear": True, "filter": "linear"}, "by texel number alone"),
        ([1.0, 2.0], {}, "made from an array"),
    ],
)
def test_refusals(array: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(weft.ArgumentError, match=message):
        weft.texture(array, **options)


def test_an_array_for_a_texture_object_names_weft_texture() -> None:
    source = "__global__ void k(cudaTextureObject_t t, int* y) { *y = tex1Dfetch<int>(t, 0); }"
    with pytest.raises(weft.ArgumentError, match=r"a texture object is weft\.texture\(x\)"):
        weft.cuda(source).k[1, 1](np.zeros(4, np.int32), np.zeros(1, np.int32))
