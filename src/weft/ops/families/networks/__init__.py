"""Ops of networks: layers, losses, and their gradients."""
