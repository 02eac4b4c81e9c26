"""The sanitizer: an observer that stores shadow records of every access and compares them."""
