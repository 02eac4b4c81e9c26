"""How long does it take? Timing with events, in turns, with clocks and throttling watched."""
