"""A server that sweeps although another one does, as when the database gave the part away twice.

python -m tests.support.leading
"""

from __future__ import annotations

import sys

from verifier_service.app import main
from verifier_service.persistence.leads import AloneLead
from verifier_service.persistence.store import SqlStore

if __name__ == "__main__":
    SqlStore.lead = lambda _self, _name: AloneLead()  # type: ignore[method-assign, assignment]
    sys.exit(main())
