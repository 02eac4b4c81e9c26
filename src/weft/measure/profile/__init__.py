"""What does a launch do? Counters of lines and arrays, the roofline, floors, advice."""
