"""Products whose K, or panels of it, are in shared memory at once.

plans.py  candidates: whole vectors of a short K, or rows that begin at any element
model.py  their cost model
"""
