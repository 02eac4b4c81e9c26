"""Models over several processes and GPUs."""
