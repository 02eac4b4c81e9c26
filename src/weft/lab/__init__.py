"""The lab: a local web app in which a kernel is edited, run, checked and debugged.

    page (static/)  editor, form and panes; talks JSON to the server
      server.py     Starlette: token, Origin and Host, routes; api.py has the handlers
        saving.py   the user's files: the course folder, and the file of the command line
        process.py  the worker process: limits, replacement
          worker.py reads jobs, runs an action of actions.py, answers
            debugging.py  the commands of the debugger, in a worker of its own (debug_api.py)
            exported.py   pages that need no server, for export.py

The server never compiles or runs anything. A job (`job.py`) is what the page sends: source, sizes,
arrays and launches.
"""
