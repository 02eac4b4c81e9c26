"""Plan convolutions in which every filter reads one channel."""
