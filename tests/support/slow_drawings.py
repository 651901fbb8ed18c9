"""A server whose drawings may take for ever or all memory: two molecules do, all others are drawn as usual.

No SMILES is known that passes the limits of reading and does so by itself. ``python -m`` this module runs
the server; the process that draws is ``CHILD``.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from tiers import drawing, drawing_child

CHILD = "tests.support.slow_drawing_child"
ENDLESS, GREEDY = "[Xe]", "[Kr]"
STEP = 1 << 26
_draw = drawing_child._draw


def draw(text: str) -> Any:
    """As ``drawing_child`` does, but for those two."""
    if text == ENDLESS:
        while True:
            time.sleep(60)
    if text == GREEDY:
        held = []
        while True:
            held.append(bytes(STEP))  # asked for, never touched
    return _draw(text)


def main() -> int:
    """Serve with the settings of the environment."""
    from verifier_service import app

    drawing.CHILD, drawing.DEADLINE_S = CHILD, 2.0
    return app.main()


if __name__ == "__main__":
    sys.exit(main())
