"""Verbs that stop programs and look into them."""
