"""Shadow records of memory: what the sanitizer remembers of each access, and compares."""
