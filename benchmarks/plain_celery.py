"""What teams write first: a Celery task per item, results in Redis. The baseline of ``distributed``.

celery -A benchmarks.plain_celery worker
"""

from __future__ import annotations

import os

from celery import Celery

app = Celery("plain", broker=os.environ["PLAIN_REDIS"], backend=os.environ["PLAIN_REDIS"])
app.conf.update(task_serializer="json", worker_prefetch_multiplier=64, result_expires=600)


@app.task  # type: ignore[untyped-decorator]
def judge(answer: str, reference: str) -> float:
    """Compare twice, as the ladder with two fast checks does."""
    return float(answer == reference) * float(answer == reference)
