"""Shows results of the course: lines for the terminal and pages."""
