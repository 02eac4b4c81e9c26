"""A discrete-event simulation of parallel schedules; it shares no formula with the layouts."""
