"""Advice: the checklist of performance as rules over counters."""
