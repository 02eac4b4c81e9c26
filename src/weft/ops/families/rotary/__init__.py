"""Rotary embeddings of queries and keys."""
