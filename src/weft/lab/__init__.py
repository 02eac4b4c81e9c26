"""The lab: a local web app in which a kernel is edited, run, checked and debugged.

    page (static/)  editor, form and panes; talks JSON to the server
      server.py     Starlette: token, Origin and Host, routes; api.py has the handlers
        saving.py   the user's files: the course folder, and the file of the command line
        process.py  the worker process: limits, replacement
          worker.py reads jobs, runs an action of actions.py, answers
            debugger/     the commands of the debugger, in a worker of its own (debugger/api.py)
            exporting/    pages that need no server

The server never compiles or runs anything. A job (`job.py`) is what the page sends: source, sizes,
arrays and launches.
"""
