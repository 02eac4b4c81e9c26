"""Explains a failed answer: what happened, in which thread and line, why, and one question.

evidence.py   collects facts: the grade, findings of the sanitizer, counters, wrong elements
elements.py   the first wrong elements, and the threads that wrote them
division.py   divisions of integers in a source
kinds.py      the kinds of mistakes: likely cause and question
mistakes.py   chooses the kind for the evidence
"""
