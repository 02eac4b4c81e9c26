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
        ("sim:rtx307", "Did you mean 'sim:rtx3070'?"),
        ("h20", "Did you mean 'sim:h200'?"),
        ("simm", "Did you mean 'sim'?"),
        ("gpu:", "Did you mean 'gpu'?"),
        ("gpu:-1", "Did you mean 'gpu'?"),
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
