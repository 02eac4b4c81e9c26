"""The parts of `profile_vs_ncu.py`."""
