"""Whether the server of this machine can do its work: ``python -m verifier_service.api.ready``.

Asks ``/readyz`` on the port of the settings. For the health checks of containers: exits with 0 when the
server is ready, else with 1 and the answer, or why there is none, on standard error.
"""

from __future__ import annotations

import http.client
import sys

from verifier_service.settings import Settings

TIMEOUT_S = 4.0
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what to ask where it listens on all
MOST_BYTES = 4_096


def ask(host: str, port: int) -> tuple[bool, str]:
    """Whether the server answered that it is ready, and what it said."""
    connection = http.client.HTTPConnection(EVERY_ADDRESS.get(host, host), port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status == http.client.OK, answer.read(MOST_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer from {host}:{port}: {error}"
    finally:
        connection.close()


def main() -> int:
    """Ask once."""
    settings = Settings()
    ready, said = ask(settings.host, settings.port)
    if not ready:
        sys.stderr.write(f"{said}\n")
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
