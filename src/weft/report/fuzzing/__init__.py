"""Reports of random programs."""
