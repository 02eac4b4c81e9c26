"""Code of a kernel in two tiers: a draft that runs at once, and full code made meanwhile."""
