"""Verbs for the models of PyTorch scripts."""
