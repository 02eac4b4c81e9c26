"""Renders the profile of a PyTorch script: by layers, by operations, as a page and as a trace."""
