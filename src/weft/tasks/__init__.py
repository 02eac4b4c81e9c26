"""What weft does for a user: a module per task, from options to a value.

The command line, the lab, the pytest plugin and notebooks call these. A task prints nothing:
`weft.report` renders its value.
"""
