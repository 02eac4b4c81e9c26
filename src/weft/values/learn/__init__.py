"""Results of the course: grades and progress, explanations, certificates and classes."""
