"""Launches: memory, host threads, services (printf, malloc), faults, deadlock detection."""
