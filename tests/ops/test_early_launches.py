"""Small calls of layers: one kernel for each op, which is launched early and waits for its turn."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import runner  # noqa: E402
from weft.ops.core.plan import Plan, result  # noqa: E402
from weft.ops.models import cases, config, named  # noqa: E402
from weft.ops.sweep.case import arguments  # noqa: E402

MODELS = config.models()
CALLS = [
    "mistral-7b add_rms_norm tokens=1",
    "llama3-8b rms_norm batch=2 tokens=16 backward",
    "gpt2-medium add_layer_norm tokens=128 backward",
    "convnext-t add_layer_norm.3 tokens=196 float16",
    "vit-b16 add tokens=197",
    "gpt2 act tokens=16 backward",
    "mixtral-8x7b expert_act tokens=32 backward",
    "mixtral-8x7b routes tokens=32 backward",
    "resnet50 relu512@28 channels_last",
    "resnet50 mean_pool2048@7 batch=4 channels_last float16 backward",
    "resnet50 mean_pool2048@7 batch=2 backward",
    "resnet50 max_pool64@112",
    "resnet50 batch_norm512@14 batch=3 channels_last bfloat16",
    "resnet50 batch_norm512@7 batch=2 backward",
    "bert-large embedding batch=4 tokens=16 backward",
    "deit-s loss batch=4 float16 backward",
    "bert-base loss tokens=16",
    "mixtral-8x7b sampling batch=2",
    "falcon-7b sampling batch=1 float32",
    "sd1.5-unet group_norm320@32 float16",
]
MEMORY = re.compile(r"\b(?:ld|st|atom|red)\.(?:\w+\.)*global|cp\.async|\bld\.\w*(?:v\d|[bsuf]\d+)")
"""Instructions that access global memory."""
PARAMETERS = re.compile(r"\bld\.param[^\n]*")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans of calls, of which nothing runs."""
    made: list[Plan] = []

    def noted(plan: Plan, count: int) -> Any:
        def run(*values: Any) -> Any:
            made.append(plan)
            return result([runner._allocate(b).zero_() for b in plan.outputs])

        return run

    monkeypatch.setattr(runner, "_simulated", noted)
    return made


@pytest.mark.parametrize("words", CALLS)
def test_small_calls_are_one_kernel_that_starts_early(words: str, plans: list[Plan]) -> None:
    (one,) = named.named(MODELS, [words])
    case = cases.case(one.case)
    arguments(case, one.work.call, "cpu").of(case.call)
    assert plans
    for plan in plans:
        (step,) = plan.steps
        assert step.early and not any(b.zeroed for b in (*plan.outputs, *plan.scratch))
        before, wait, after = step.kernel.ptx.partition("griddepcontrol.wait")
        body = before.rpartition(".entry")[2]
        assert wait and MEMORY.search(PARAMETERS.sub("", after))
        assert not MEMORY.search(PARAMETERS.sub("", body)), body


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_with_running_statistics_starts_early(training: bool, plans: list[Plan]) -> None:
    """The update of running statistics, and the result by given ones."""
    # A number of channels that no other test has: a plan is made once.
    x, mean, var = torch.zeros(2, 53, 4, 4), torch.zeros(53), torch.ones(53)
    weft.ops.batch_norm(x, mean, var, training=training)
    assert len(plans) == 1 + training
    (step,) = plans[-1].steps
    assert step.early and "griddepcontrol.wait" in step.kernel.ptx
