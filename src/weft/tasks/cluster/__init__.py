"""Tasks that worker processes share: of this machine, or of a Ray cluster."""
