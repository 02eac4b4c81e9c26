"""Messages of launches that fail."""
