"""Pages of the lab that need no server."""
