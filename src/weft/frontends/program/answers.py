"""Decorates methods that C++ calls: exceptions cannot cross C++, so they become numbers."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

from weft.errors import Error

UNSIMULATED = b"a kernel could not be simulated"


def answers(otherwise: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Print an error and return `otherwise`. The owner has `say` and `library`."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def safely(self: Any, *args: Any) -> Any:
            try:
                return method(self, *args)
            except Error as error:
                self.say(str(error))
            except Exception:  # a bug of weft: the program gets an error code
                self.say(f"internal error\n{traceback.format_exc()}")
            self.library.weft_condemn(UNSIMULATED)
            return otherwise

        return safely

    return decorate
