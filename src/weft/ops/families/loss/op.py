"""Losses: cross entropy, negative log likelihood, losses of pairs of elements."""

from __future__ import annotations

from weft.ops.families.loss import cross_entropy, losses, nll_loss

GROUP = "losses"
DEFINITIONS = (*cross_entropy.DEFINITIONS, *losses.DEFINITIONS, *nll_loss.DEFINITIONS)
