"""The process that draws for ``slow_drawings``."""

from __future__ import annotations

from tests.support import slow_drawings
from tiers import drawing_child

drawing_child._draw = slow_drawings.draw

if __name__ == "__main__":
    drawing_child.main()
