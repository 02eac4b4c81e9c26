"""The parts of `sim_speed.py`: cases, C++ twins, timing, start-up, other simulators, the table."""
