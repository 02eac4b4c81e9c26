"""Tasks for the model of a PyTorch script: profile, extract, explain."""
