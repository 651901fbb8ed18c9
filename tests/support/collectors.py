"""A collector of traces: OTLP over HTTP, protobuf (https://opentelemetry.io/docs/specs/otlp/#otlphttp)."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """A span as it was received; ids in hexadecimal."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]


@dataclass
class Collector:
    """What was received so far."""

    url: str
    spans: list[Span] = field(default_factory=list)

    def of(self, trace: str) -> list[Span]:
        """The spans of one trace."""
        return [span for span in self.spans if span.trace == trace]


def _spans(body: bytes) -> Iterator[Span]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        named = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    service=named["service.name"],
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    attributes={one.key: one.value.string_value for one in span.attributes},
                )


@contextmanager
def collecting() -> Iterator[Collector]:
    """A running collector for one block."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.spans.extend(_spans(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Silence."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield collector
        server.shutdown()
        thread.join()
