"""Matrix multiply and accumulate."""
