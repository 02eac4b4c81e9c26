"""The tasks of weft: each takes options and returns a value.

The command line, the lab, the pytest plugin and notebooks call these. A task prints nothing:
`weft.report` renders its value.
"""
