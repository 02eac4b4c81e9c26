"""The cost model of activations: that of elementwise ops, with no constants of their own.

The model counts memory traffic and the issue slots of loads, which do not depend on the formula.
"""

from weft.ops.families.elementwise.model import apart_cost, issued, traffic

__all__ = ["apart_cost", "issued", "traffic"]
