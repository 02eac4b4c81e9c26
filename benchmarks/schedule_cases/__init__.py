"""The parts of `schedules.py` and `schedule_rates.py`."""
