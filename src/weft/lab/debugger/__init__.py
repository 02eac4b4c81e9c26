"""The debugger of the lab: its commands in a worker, and its side of the server."""
