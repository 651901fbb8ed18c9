"""A server with few descriptors, or little patience, as the environment says.

TEST_FILES=700 TEST_HEAD_S=0.5 python -m tests.support.few_files
"""

from __future__ import annotations

import os
import resource
import sys

from verifier_service.api import connections, slow_bodies
from verifier_service.app import main

if __name__ == "__main__":
    if "TEST_FILES" in os.environ:
        files = int(os.environ["TEST_FILES"])
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    slow_bodies.BODY_S = float(os.environ.get("TEST_BODY_S", slow_bodies.BODY_S))
    connections.HEAD_S = float(os.environ.get("TEST_HEAD_S", connections.HEAD_S))
    sys.exit(main())
