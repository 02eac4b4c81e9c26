"""Device words: what each selects, and what a wrong one says."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.device import models
from weft.device.selection import Selection, number, select, selected
from weft.errors import ArgumentError, MissingDependency

WORDS = {
    "sim": Selection(),
    "sim:rtx3070": Selection(key="rtx3070"),
    "SIM:RTX 3070": Selection(key="rtx3070"),
    "rtx3070": Selection(key="rtx3070"),
    "gpu": Selection(number=0),
    "cuda": Selection(number=0),
    "gpu:1": Selection(number=1),
    "cuda:2": Selection(number=2),
}


@pytest.mark.parametrize("word", WORDS)
def test_words(word: str) -> None:
    assert select(word) == WORDS[word]
    assert select(select(word)) == WORDS[word]


@pytest.mark.parametrize(
    ("word", "next"),
    [
        ("sim:rtx307", "did you mean 'sim:rtx3070'?"),
        ("h20", "did you mean 'sim:h200'?"),
        ("simm", "did you mean 'sim'?"),
        ("gpu:", "did you mean 'gpu'?"),
        ("gpu:-1", "did you mean 'gpu'?"),
        ("", "`weft devices` shows them all"),
        ("voodoo", "`weft devices` shows them all"),
    ],
)
def test_unknown_word(word: str, next: str) -> None:
    with pytest.raises(ArgumentError, match="no such device") as caught:
        select(word)
    assert caught.value.got == repr(word)
    assert "sim:MODEL" in caught.value.allowed and "rtx3070" in caught.value.allowed
    assert caught.value.next == next


def test_one_spelling() -> None:
    assert [select(w).word for w in ("sim", "t4", "cuda", "gpu:3")] == [
        f"sim:{models.DEFAULT}", "sim:t4", "gpu:0", "gpu:3"
    ]  # fmt: skip


def test_numbers_of_real_gpus() -> None:
    assert [number(d) for d in (None, 1, "gpu", "cuda:2", "sim")] == [None, 1, 0, 2, None]


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(MissingDependency, match="no GPU to time on") as caught:
        select("gpu:4096").require("time on", next="try sim")
    assert "gpu:4096" in caught.value.got and caught.value.next == "try sim"
    select("sim:t4").require("time on")


def test_the_deprecated_name_of_a_model() -> None:
    with pytest.warns(DeprecationWarning, match='gpu= is deprecated.*device="sim:t4"'):
        assert selected("sim", "T4", name="gpu=") == Selection(key="t4")
    with pytest.warns(DeprecationWarning, match="--gpu is deprecated.*--device sim:t4"):
        assert selected("gpu:1", "t4", name="--gpu") == Selection(number=1, key="t4")


def test_the_simulated_gpu_has_nothing_to_wait_for() -> None:
    weft.synchronize("sim")
    with pytest.raises(ArgumentError, match="no such device"):
        weft.synchronize("gpux1")


def test_variables_are_selected_by_word() -> None:
    module = weft.cuda("__device__ int count; __global__ void k() { count = 7; }")
    module.k[1, 1]()
    for variable in (module.variable, module.k.variable):
        found = variable("count", np.int32, "sim")
        assert isinstance(found, np.ndarray) and found[()] == 7


# ---- where words are taken -----------------------------------------------------------------------
SCALE = "__global__ void scale(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }"
BIG = "extern __shared__ float s[]; __global__ void big(float* x) { s[0] = x[0]; x[0] = 2 * s[0]; }"


def test_profile_counts_for_the_model_that_is_named() -> None:
    x, launch = np.ones(32, np.float32), weft.cuda(SCALE).scale[1, 32]
    assert weft.profile(launch, x, 32, device="sim:rtx3070").gpu == "rtx3070"
    assert weft.profile(lambda: launch(x, 32), device="sim:t4").gpu == "t4"
    with pytest.warns(DeprecationWarning, match='gpu= is deprecated.*device="sim:rtx3070"'):
        assert weft.profile(launch, x, 32, gpu="rtx3070").gpu == "rtx3070"


def test_bench_gives_the_floor_on_the_model_that_is_named() -> None:
    contenders = {"nothing": lambda: None}
    assert weft.bench(contenders, bytes=1e9, device="sim:t4").gpu == models.get("t4").name
    with pytest.warns(DeprecationWarning, match="gpu= is deprecated"):
        assert weft.bench(contenders, device="sim", gpu="t4").gpu == models.get("t4").name
    with pytest.raises(ArgumentError, match="times are taken on the first GPU") as caught:
        weft.bench(contenders, device="gpu:1")
    assert caught.value.next == "CUDA_VISIBLE_DEVICES=1 makes it the first"


def doubled(x: np.ndarray, y: np.ndarray) -> None:
    y[:] = x
    weft.cuda(BIG).big[1, 1, 150_000](y)


def test_check_holds_launches_to_the_limits_of_the_model_that_is_named() -> None:
    op = weft.Op("double", "x:f32[1] -> y:f32[1]", lambda x: 2 * x, [weft.Case()])
    assert weft.check(op, doubled).device == "NumPy"
    assert weft.check(op, doubled, device="sim:h200")
    with pytest.raises(weft.LaunchError, match=r"big needs more shared memory.*RTX 3070"):
        weft.check(op, doubled, device="sim:rtx3070")
    assert weft.check(op, doubled)  # the limits are those of one check


def test_explain_chooses_for_the_model_that_is_named() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, 1000)
    assert "T4, simulated" in str(weft.ops.explain(weft.ops.softmax, x, dim=1, device="sim:t4"))
    with pytest.raises(ArgumentError, match="no such device"):
        weft.ops.explain(weft.ops.softmax, x, dim=1, device="t5x")


def test_front_ends_simulate_the_model_that_is_named() -> None:
    pytest.importorskip("numba.cuda")
    from weft.frontends import numba, triton

    with pytest.raises(ArgumentError, match="selects a GPU to simulate"):
        weft.kernel(lambda x: None, device="gpu")
    for install in (numba.install, triton.install):
        with pytest.raises(ArgumentError, match="install selects a GPU to simulate"):
            install("gpu:1")
        with (
            pytest.warns(DeprecationWarning, match='gpu= is deprecated.*device="sim:t4"'),
            pytest.raises(ArgumentError, match="selects a GPU"),  # nothing is installed
        ):
            install("gpu", gpu="t4")
