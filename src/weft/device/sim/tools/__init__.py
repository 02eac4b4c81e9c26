"""Tools that observe launches: performance counters, the sanitizer, the writer of an element."""
