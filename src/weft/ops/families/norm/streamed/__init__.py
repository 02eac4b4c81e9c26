"""Gradients of layer and RMS norm by blocks that stay, with the rows to come on their way."""
