"""The sweep: ops of the library on calls drawn at random, against torch, checked in float64.

draw.py   sizes, dtypes and strides from a seed
cases.py  what each op is called with, and what torch calls it
time.py   how long a call takes, as users make it and alone
run.py    draws, checks, times and sums up
"""
