"""The parts of `frontends_speed.py`: one file of cases for each front end, each a program."""
