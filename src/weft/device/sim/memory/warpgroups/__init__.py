"""Matrix products of warpgroups: `wgmma`."""
