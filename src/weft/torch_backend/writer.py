"""Add operations to a traced graph."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_aggregate


class Writer:
    """Adds operations to a graph, with their fake results."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        made = self.graph.call_function(target, args, kwargs)
        values = map_aggregate(args, lambda a: a.meta["val"] if isinstance(a, Node) else a)
        first: Any = made.all_input_nodes[0]
        mode = first.meta["val"].fake_mode
        with mode, torch.no_grad():
            made.meta["val"] = target(*values, **kwargs)
        return made
