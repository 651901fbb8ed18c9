"""One compute thread per process: chemistry libraries scale here by processes, not by threads.

Two OpenMP threads on a busy machine were measured forty times slower than one (GFN2 on aspirin).
"""

from __future__ import annotations

import os

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread() -> None:
    """Limit this process to one compute thread; only libraries loaded afterwards obey."""
    for variable in _VARIABLES:
        os.environ[variable] = "1"
