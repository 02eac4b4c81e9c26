"""Whole programs of learners: judged by what they print, by races and by rules.

judge.py     judges a program
rules.py     its rules: a fact, a comparison, a limit
overlap.py   facts of its timeline
several.py   facts of several GPUs
idle.py      the program without the calls of a function
"""
