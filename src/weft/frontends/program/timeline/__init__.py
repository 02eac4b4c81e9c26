"""Records the calls, the work and the ranges of a whole program, for a timeline."""
