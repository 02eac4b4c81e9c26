"""Makes a timeline of the activities of a program: modelled times, the critical path, gaps."""
