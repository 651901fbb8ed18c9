"""OpenTelemetry traces: off unless ``VERIFIER_TRACING`` is set.

The API's spans are the framework's. A worker's attempt joins the trace in which a trajectory that wants it
was submitted: the first such trace, with links to the others, for one check may serve many. Where spans are
sent, how they are sampled and batched, is set by the standard ``OTEL_*`` variables
(https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.ports.traces import AttemptSpan

if TYPE_CHECKING:
    from opentelemetry.context import Context

MAX_LINKS = 32
NEEDS_EXTRA = "tracing needs the extra 'tracing': pip install 'verifier-service[tracing]'"


class NoTracer:
    """Tracing is off."""

    on = False

    def current(self) -> str | None:
        """Nothing is traced."""
        return None

    def attempt(self, parents: Sequence[str], span: AttemptSpan) -> None:
        """Nothing is recorded."""

    def close(self) -> None:
        """Nothing is left."""


class OtelTracer:
    """Spans over OTLP/HTTP. ``role`` is the ``service.name`` unless ``OTEL_SERVICE_NAME`` is set.

    Raises ``InvalidInput`` where the SDK is not installed.
    """

    on = True

    def __init__(self, role: str) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise InvalidInput("extra_missing", NEEDS_EXTRA, field="VERIFIER_TRACING") from error
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        # Variables of the environment win: ``create`` merges them over what is given here.
        self.provider = TracerProvider(resource=Resource.create(_named(role)))
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._trace = trace
        self._tracer = self.provider.get_tracer("verifier_service")
        self._propagator = TraceContextTextMapPropagator()

    def current(self) -> str | None:
        """The running span's, where it is sampled or not."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent")

    def attempt(self, parents: Sequence[str], span: AttemptSpan) -> None:
        """One span with the times of the attempt itself."""
        contexts = [self._context(parent) for parent in parents[: MAX_LINKS + 1]]
        ended = time.time_ns() - int(span.ago_s * 1e9)
        links = [
            self._trace.Link(self._trace.get_current_span(other).get_span_context())
            for other in contexts[1:]
        ]
        made = self._tracer.start_span(
            f"verify {span.verifier}",
            context=contexts[0] if contexts else None,
            kind=self._trace.SpanKind.CONSUMER,
            start_time=ended - int(span.wall_s * 1e9),
            attributes=dict(span.attributes),
            links=links,
        )
        if span.failed is not None:
            made.set_status(self._trace.StatusCode.ERROR, span.failed)
        made.end(end_time=ended)

    def close(self) -> None:
        """Flush; the exporter's own time limit holds."""
        self.provider.shutdown()

    def _context(self, parent: str) -> Context:
        return self._propagator.extract({"traceparent": parent})


def _named(role: str) -> dict[str, Any]:
    return {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": role}


def tracer(role: str, *, on: bool) -> NoTracer | OtelTracer:
    """The tracer of this process."""
    return OtelTracer(role) if on else NoTracer()
