"""Integer arithmetic, logic, bit fields and video instructions."""
