"""The debugger for editors: the Debug Adapter Protocol, DAP.

`adapter` owns the connection to the editor and starts the program; `server` answers requests in the
process of the program, where the launches are.
"""
