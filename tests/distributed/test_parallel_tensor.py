"""Models divided over ranks: outputs, losses, gradients and states of ordinary ones; refusals."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import ArgumentError

torch = pytest.importorskip("torch")
import tensor_ranks  # noqa: E402  these need torch

from ranks import run_ranks  # noqa: E402
from weft.distributed import parallel  # noqa: E402
from weft.networks.gpt2 import Gpt2, Gpt2Config  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="needs PyTorch with gloo",
)


def test_two_ranks_compute_as_one() -> None:
    """GPT-2, and Llama with grouped heads; 61 tokens are filled up to 62."""
    run_ranks(tensor_ranks.decoders, 2)


@pytest.mark.parametrize("world", [2, 3])
def test_layers(world: int) -> None:
    run_ranks(tensor_ranks.layers, world)


def test_one_rank_needs_no_process_group() -> None:
    tensor_ranks.decoder(0, 1, "llama", sequence=True)


def test_what_cannot_be_divided() -> None:
    said = {
        "heads": "rank {}: the number of heads is no multiple of the ranks\n  got: 2 heads on 3",
        "outputs": "rank {}: the number of outputs is no multiple",
        "inputs": "rank {}: the number of inputs is no multiple",
        "vocabulary": "rank {}: the vocabulary is too small",
        "output": "no such output\n  got: all\n  allowed: sum, scatter, partial",
        "models": "rank {}: ranks have different models\n  got: rank 1: Llama",
        "shapes": "rank {}: ranks have different inputs\n  got: rank 2: (2, 4) float32",
    }
    for rank, found in enumerate(run_ranks(tensor_ranks.refusals, 3)):
        assert found.keys() == said.keys()
        for name, text in said.items():
            assert found[name].startswith("ArgumentError") and text.format(rank) in found[name]


def _head_with_bias() -> Any:
    return parallel.VocabParallelHead(torch.nn.Linear(2, 4))


def _loss(**options: Any) -> Any:
    return parallel.vocab_parallel_cross_entropy(
        torch.zeros(2, 5), torch.zeros(2, dtype=torch.int64), **{"vocabulary": 5, **options}
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: parallel.parallelise(torch.nn.Linear(2, 2)), "parallelise does not know this"),
        (
            lambda: parallel.parallelise(Gpt2(Gpt2Config(8, 1, 1, 9, 4, dropout=0.1))),
            "a divided model has no dropout",
        ),
        (
            lambda: parallel.clip_grad_norm_(torch.nn.Linear(1, 1), 0.0),
            "the largest norm is positive",
        ),
        (_head_with_bias, "a head over a divided vocabulary has no bias"),
        (lambda: _loss(reduction="max"), "no such reduction\n  got: max"),
        (lambda: _loss(vocabulary=6), "rank 0: logits do not fit"),
        (
            lambda: parallel.load_whole(torch.nn.Linear(2, 2), {"weight": torch.zeros(2, 2)}),
            "bias is in one of them only",
        ),
        (
            lambda: parallel.ParallelAttention(3, 2, torch.nn.Linear(6, 14), torch.nn.Linear(6, 6)),
            "heads of queries share heads of keys and values in equal groups",
        ),
    ],
)
def test_refusals(call: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call()


def test_a_model_without_gradients_or_divided_layers() -> None:
    layer = torch.nn.Linear(2, 1, bias=False)
    assert parallel.clip_grad_norm_(layer, 1.0) == 0
    layer(torch.tensor([[3.0, 4.0]])).sum().backward()
    assert parallel.clip_grad_norm_(layer, 1.0) == 5
    torch.testing.assert_close(layer.weight.grad, torch.tensor([[0.6, 0.8]]))


def test_names() -> None:
    assert all(getattr(parallel, name) is not None for name in parallel.__all__)
    assert dir(parallel) == sorted(parallel.__all__)
    with pytest.raises(AttributeError, match="has no 'split'"):
        parallel.split  # noqa: B018
