"""Synchronisation points: barriers of blocks, named barriers, mbarriers and warps."""
