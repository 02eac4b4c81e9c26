"""The sanitizer: an observer that keeps shadow records of every access and compares them."""
