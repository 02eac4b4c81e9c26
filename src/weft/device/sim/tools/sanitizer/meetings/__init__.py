"""Where threads wait for each other: barriers of blocks, named barriers, mbarriers and warps."""
