"""The verb that predicts times."""
