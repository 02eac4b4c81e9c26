"""Plans losses: classes.py prepares a call with labels for its kernels."""
