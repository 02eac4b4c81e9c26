"""Renders what the lab shows of a kernel as pages that need no server."""
