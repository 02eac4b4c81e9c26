"""The loss of a linear layer, without its logits in memory."""
