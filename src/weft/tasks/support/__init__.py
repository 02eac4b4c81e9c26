"""Tasks for users who need help: reports of bugs."""
