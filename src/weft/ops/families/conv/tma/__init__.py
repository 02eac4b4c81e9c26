"""Plan convolutions of 16-bit elements by boxes of pixels, for Hopper: TMA and wgmma."""
