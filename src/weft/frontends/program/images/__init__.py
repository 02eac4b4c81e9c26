"""Device code that a program brings: fat binaries, objects and archives, and linking them."""
