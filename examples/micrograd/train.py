"""Trains a small network to tell two spirals apart: `python examples/micrograd/train.py`."""

from __future__ import annotations

import numpy as np
from engine import MLP, Tensor


def spirals(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points on two spiral arms, and the arm of each point."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    turn = rng.uniform(0.25, 1.0, count)
    angle = 2 * np.pi * turn + np.pi * labels
    points = turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return points + rng.normal(0, 0.02, points.shape), labels


def train(steps: int = 300, count: int = 128, rate: float = 0.5) -> list[tuple[float, float]]:
    """The loss and the accuracy after each step."""
    points, labels = spirals(count)
    x, model, history = Tensor(points * 4), MLP([2, 32, 32, 2]), []
    for step in range(steps):
        scores = model(x)
        loss = scores.cross_entropy(labels)
        loss.backward()
        model.update(rate)
        right = float((scores.data.argmax(1) == labels).mean())
        history.append((float(loss.data[0]), right))
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:3}  loss {history[-1][0]:.4f}  accuracy {right:.1%}")
    return history


if __name__ == "__main__":
    train()
