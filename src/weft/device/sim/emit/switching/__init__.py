"""Code that is compiled for schedules: the order of threads, and switches between them."""
