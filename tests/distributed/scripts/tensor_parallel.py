"""A small Llama, split over ranks by columns, rows and positions, against one process."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

WIDTH, HEADS, LENGTH, WORDS = 16, 4, 8, 12

rank, world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        heads = (w(x).unflatten(-1, (-1, WIDTH // HEADS)) for w in (self.wq, self.wk, self.wv))
        q, k, v = (part.transpose(1, 2) for part in heads)
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.w2 = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.output = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def make():
    torch.manual_seed(5)
    return Llama().to("cuda")


def split(model, mesh, logits):
    """Columns, then rows; between them each rank has a part of the positions."""
    parallelize_module(
        model,
        mesh,
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(
                input_layouts=Shard(1),
                output_layouts=Shard(-1) if logits else Replicate(),
                use_local_output=not logits,
            ),
        },
    )
    columns, rows = ColwiseParallel(), RowwiseParallel(output_layouts=Shard(1))
    gathered = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    for layer in model.layers:
        plan = {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(**gathered),
            "ffn_norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(**gathered),
        }
        plan |= {f"attention.{name}": columns for name in ("wq", "wk", "wv")}
        plan |= {"attention.wo": rows, "feed_forward.w2": rows}
        plan |= {"feed_forward.w1": columns, "feed_forward.w3": columns}
        parallelize_module(layer, mesh, plan)
    return model


def train(model, tokens, loss_of):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, foreach=True)
    losses = []
    for _ in range(2):
        losses.append(loss_of(model, tokens))
        optimizer.step()
        optimizer.zero_grad()
    return losses


def plain(model, tokens):
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    return loss.item()


def by_words(model, tokens):
    """The loss of logits that are split by words."""
    with loss_parallel():
        logits = model(tokens)
        assert isinstance(logits, DTensor) and logits.placements[0].is_shard()
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
    return loss.full_tensor().item()


def close(ours, expected):
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


def same(model, alone):
    for ours, expected in zip(model.parameters(), alone.parameters(), strict=True):
        close(ours.full_tensor(), expected)


def tokens_of(part):
    return (torch.arange(2 * LENGTH, device="cuda").reshape(2, LENGTH) * 7 + part) % WORDS


def tensors(mesh):
    """DTensors by hand: redistribution, products, random numbers."""
    value = torch.arange(8.0 * world * 3, device="cuda").reshape(-1, 3)
    rows = distribute_tensor(value, mesh, [Shard(0)])
    assert rows.device.type == "cuda" and rows.to_local().shape == (8, 3)
    assert torch.equal(rows.redistribute(mesh, [Replicate()]).to_local(), value)
    columns = distribute_tensor(value.T.contiguous(), mesh, [Shard(1)])
    product = columns @ rows
    assert product.placements == (Partial(),)
    close(product.full_tensor(), value.T @ value)
    moved = rows.redistribute(mesh, [Shard(1)]) if world <= 3 else rows
    assert torch.equal(moved.full_tensor(), value)
    drawn = torch.distributed.tensor.rand((4 * world, 3), device_mesh=mesh, placements=[Shard(0)])
    assert drawn.full_tensor().unique().numel() > 3 * world
    layer = distribute_module(nn.Linear(3, 2).to("cuda"), mesh)
    assert layer(rows).to_local().shape == (8, 2)


def main():
    mesh = init_device_mesh("cuda", (world,), mesh_dim_names=("tp",))
    assert dist.get_backend() in ("nccl", "undefined") and mesh.device_type == "cuda"
    tensors(mesh)
    alone = make()
    expected = train(alone, tokens_of(0), plain)
    for logits, loss_of in ((False, plain), (True, by_words)):
        model = split(make(), mesh, logits)
        close(torch.tensor(train(model, tokens_of(0), loss_of)), torch.tensor(expected))
        same(model, alone)
    if world == 4:
        in_two_dimensions()
    dist.destroy_process_group()


def in_two_dimensions():
    """FSDP over pairs of ranks that split the layers."""
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
    part = mesh["dp"].get_local_rank()
    alone = make()
    train(alone, torch.cat([tokens_of(0), tokens_of(1)]), plain)
    model = split(make(), mesh["tp"], logits=False)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    train(model, tokens_of(part), plain)
    same(model, alone)


main()
