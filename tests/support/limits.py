"""Time limits of tests for the processes and threads that they start."""

PROCESS_SECONDS = 600
"""For a process that a test starts: none takes a minute on an idle machine, and one that is five
times slower, or busy, must not change a verdict. A test itself ends after `timeout` in
pyproject.toml, which is longer."""
