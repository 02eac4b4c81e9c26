"""Times that were predicted, and activities over time."""
