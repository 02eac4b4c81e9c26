"""Random numbers and dropout."""

from __future__ import annotations

from weft.ops.families.random import distributions, dropout

GROUP = "random"
DEFINITIONS = (*distributions.DEFINITIONS, *dropout.DEFINITIONS)
MAKERS = {**distributions.MAKERS, **dropout.MAKERS}
