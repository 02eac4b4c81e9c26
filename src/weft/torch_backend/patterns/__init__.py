"""Calls of Dynamo's graphs that one op of weft computes together.

calls.py    norms of sums, batch norm with ReLU, gated activations, losses of linear layers
lowered.py  keeps norms in half precision where autocast converts their results to it
rotary.py   rotary embeddings of queries and keys
halves.py   recognises the halves of rows
changes.py  finds calls that change tensors in place
"""
