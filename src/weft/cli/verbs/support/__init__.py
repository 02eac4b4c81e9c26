"""Verbs for users who need help: reports of bugs, completion of the command line."""
