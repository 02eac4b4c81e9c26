"""Tensor copies (TMA): jobs, lines, maps."""
