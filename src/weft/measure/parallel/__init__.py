"""A model of several GPUs: times of parallel layouts from times of one GPU and of links."""
