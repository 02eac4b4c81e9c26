"""Shadow records of memory: the sanitizer's record of each access, and their comparison."""
