"""Models over several processes: data, tensor and sequence parallel."""
