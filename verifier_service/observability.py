"""Configure standard logging for the whole process; lower layers only call ``logging``."""

from __future__ import annotations

import logging

import structlog


def configure_logging(level: str, *, as_json: bool) -> None:
    """Send every log record through structlog to standard error, as lines or as JSON."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=["story"]),
        _of_the_story,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks without local variables: those hold keys, bodies and references.
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *([structlog.processors.format_exc_info] if as_json else []),
            renderer,
        ],
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.getLogger("uvicorn.access").setLevel("WARNING")


def _of_the_story(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """The ids that an event is about, as fields beside its own."""
    return {**event.pop("story", {}), **event}
