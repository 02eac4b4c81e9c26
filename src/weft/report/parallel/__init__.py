"""Shows predicted times of several GPUs."""
