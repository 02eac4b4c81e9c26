"""The rules of whole programs, and the facts that they are about.

rule.py      reads a rule: a fact, a comparison, a limit
overlap.py   facts of a timeline
several.py   facts of several GPUs
idle.py      a program without the calls of a function
"""
