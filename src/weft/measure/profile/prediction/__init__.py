"""The time of a launch on a GPU, predicted from its counters."""
