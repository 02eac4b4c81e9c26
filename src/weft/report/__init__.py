"""Stage 5 of 5: renders values as text, tables and HTML pages.

It imports nothing but values and errors, so that the results of every stage can show themselves.
"""
