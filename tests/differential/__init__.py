"""Random CUDA C++ on the simulator against the same program compiled by g++: `weft fuzz`."""
