"""Performance advice: rules over counters."""
