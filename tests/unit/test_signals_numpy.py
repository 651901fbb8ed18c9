"""numpy is needed by the signals alone, and they say so where it is missing."""

from __future__ import annotations

import pytest

from tests.unit.test_client_base_install import run

SIGNALS = ("advantages", "spans", "tokens", "gae", "teacher_answers", "teachers", "distillation")


@pytest.mark.parametrize("module", SIGNALS)
def test_what_to_install_is_named(module: str) -> None:
    done = run(f"import verifier_service.trainers.{module}")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("Next: pip install 'verifier-service[trainers]'")


def test_the_rest_does_without() -> None:
    done = run(
        "import verifier_service.client, verifier_service.trainers.scoring\n"
        "from verifier_service.trainers import chat, hindsight, replay\n"
        "assert 'numpy' not in sys.modules"
    )
    assert done.returncode == 0, done.stderr
