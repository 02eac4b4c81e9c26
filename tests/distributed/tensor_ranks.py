"""The work of ranks in the tests of divided models."""

from __future__ import annotations

from typing import Any

import torch

import draw
from weft.distributed import parallel
from weft.networks import gpt2, llama
from weft.networks.network import network

LENGTH = 6


def model(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """The tiny network with weights that are the same on every CPU."""
    made = network(name, "tiny").module
    for i, p in enumerate(made.parameters()):
        with torch.no_grad():
            p.copy_(draw.seeded(i).normal(*p.shape) * (0.3 if p.dim() > 1 else 1.0))
    return made.to(dtype)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    drawn = draw.seeded(99).integers(0, 61, (2, 2, LENGTH))
    return drawn[0], drawn[1]


def grads_of(made: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The gradients of a divided model, joined as weights are."""
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(p.grad)
    return {name: value.clone() for name, value in parallel.whole_state_dict(made).items()}


def exact(name: str) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Logits, loss and gradients of the ordinary model in float64."""
    plain, (tokens, target) = model(name, torch.float64), batch()
    logits = plain(tokens)
    kind = gpt2 if name == "gpt2" else llama
    loss = kind.loss(logits, target)
    loss.backward()
    grads = {n: p.grad for n, p in plain.named_parameters(remove_duplicate=False)}
    return logits.detach(), loss.detach(), grads


def decoder(rank: int, world: int, name: str, sequence: bool) -> None:
    """A divided model computes what the ordinary one does, and its state is the ordinary one."""
    made = parallel.parallelise(model(name), sequence=sequence)
    (tokens, target), (logits, loss, grads) = batch(), exact(name)
    whole = parallel.whole_state_dict(made)
    before = model(name).state_dict()
    assert whole.keys() == before.keys()
    assert all(torch.equal(whole[key], before[key]) for key in before)
    with torch.no_grad():
        for p in made.parameters():
            p.zero_()
    parallel.load_whole(made, before)
    torch.testing.assert_close(made(tokens).double(), logits, rtol=1e-4, atol=1e-4)
    found = made.loss(tokens, target)
    torch.testing.assert_close(found.double(), loss, rtol=1e-5, atol=1e-5)
    found.backward()
    unique = {id(grad): grad for grad in grads.values()}.values()
    norm = torch.cat([grad.flatten() for grad in unique]).norm()
    torch.testing.assert_close(
        parallel.clip_grad_norm_(made, 1e6).double(), norm, rtol=1e-4, atol=1e-6
    )
    half = parallel.clip_grad_norm_(made, float(norm) / 2)
    torch.testing.assert_close(half.double(), norm, rtol=1e-4, atol=1e-6)
    grads = {key: grad / 2 for key, grad in grads.items()}
    for key, grad in grads_of(made).items():
        torch.testing.assert_close(grad.double(), grads[key], rtol=1e-4, atol=1e-4, msg=key)


def decoders(rank: int, world: int) -> None:
    """Both models, with whole sequences and with parts of them."""
    for name in ("llama", "gpt2"):
        for sequence in (False, True):
            decoder(rank, world, name, sequence)


def layers(rank: int, world: int) -> None:
    """Gathered outputs, summed and scattered rows, losses of a vocabulary that is filled up."""
    whole = [torch.nn.Linear(6, 12), torch.nn.Linear(12, 6)]
    for i, p in enumerate(p for layer in whole for p in layer.parameters()):
        p.data = draw.seeded(i).normal(*p.shape)
    x = draw.seeded(7).normal(2, 6, 6).requires_grad_()
    column = parallel.ColumnParallelLinear(whole[0], gather=True)
    torch.testing.assert_close(column(x), whole[0](x), rtol=1e-4, atol=1e-4)
    column.gather = False
    y = whole[1](whole[0](x))
    rows = parallel.RowParallelLinear(whole[1])
    torch.testing.assert_close(rows(column(x)), y, rtol=1e-4, atol=1e-4)
    rows.output = "scatter"
    part = y.chunk(world, 1)[rank]
    torch.testing.assert_close(rows(column(x)), part, rtol=1e-4, atol=1e-4)
    losses(rank, world)


def losses(rank: int, world: int) -> None:
    """Each reduction, with targets that are ignored."""
    vocabulary = 11
    size = -(-vocabulary // world)
    logits = draw.seeded(3).normal(4, vocabulary) * 3
    target = torch.tensor([0, 10, -100, 5])
    exact = logits.double().requires_grad_()
    padded = torch.nn.functional.pad(logits, (0, size * world - vocabulary))
    for reduction in ("none", "sum", "mean"):
        ours = padded.chunk(world, 1)[rank].clone().requires_grad_()
        found = parallel.vocab_parallel_cross_entropy(ours, target, vocabulary, reduction=reduction)
        theirs = torch.nn.functional.cross_entropy(exact, target, reduction=reduction)
        torch.testing.assert_close(found.double(), theirs, rtol=1e-5, atol=1e-5)
        weights = torch.tensor([1.0, 2.0, 3.0, 4.0]) if reduction == "none" else torch.ones(())
        found.backward(weights)
        (grad,) = torch.autograd.grad(theirs, exact, weights.double())
        grad = torch.nn.functional.pad(grad, (0, size * world - vocabulary))
        torch.testing.assert_close(
            ours.grad.double(), grad.chunk(world, 1)[rank], rtol=1e-5, atol=1e-5
        )


def refusals(rank: int, world: int) -> dict[str, str]:
    """The errors of inputs that cannot be divided, or that differ on the ranks."""
    made = model("gpt2")
    calls = {
        "heads": lambda: parallel.parallelise(made),
        "outputs": lambda: parallel.ColumnParallelLinear(torch.nn.Linear(2, 4)),
        "inputs": lambda: parallel.RowParallelLinear(torch.nn.Linear(4, 2)),
        "vocabulary": lambda: parallel.VocabParallelEmbedding(torch.nn.Embedding(2, 4)),
        "output": lambda: parallel.RowParallelLinear(torch.nn.Linear(3, 2), output="all"),
        "models": lambda: parallel.parallelise(model("llama" if rank == 1 else "gpt2")),
        "shapes": lambda: check(rank),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def check(rank: int) -> None:
    from weft.distributed.parallel.group import check_same_shape, group_of

    check_same_shape(group_of(), torch.zeros(2, 3 + (rank == 2)))
