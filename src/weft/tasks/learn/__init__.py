"""Tasks of the course: read and grade, the map, reviews, explanations, certificates, classes."""
