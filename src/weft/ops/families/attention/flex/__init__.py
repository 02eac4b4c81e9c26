"""Attention whose scores and mask are C++ expressions of the caller."""
