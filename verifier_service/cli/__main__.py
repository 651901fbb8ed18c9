"""``python -m verifier_service.cli`` is the ``verifier`` command."""

from verifier_service.cli import main

main()
