"""Renders steps of whole networks (steps.py) and trainings on texts (texts.py)."""
