"""Programs under the debugger."""
