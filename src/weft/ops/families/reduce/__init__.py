"""Reductions: what an op is (`row`), tensors as the kernels read them (`views`), `candidates` and
their `plans`."""
