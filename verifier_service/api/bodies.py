"""Request bodies: read strictly by ``parsing``, described in OpenAPI by their models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from verifier_service.api.envelopes import Problem
from verifier_service.api.parsing import parse_body
from verifier_service.api.problems import too_large
from verifier_service.api.threads import by_size

M = TypeVar("M", bound=BaseModel)

PREFIX = "Request."
REF = "#/components/schemas/" + PREFIX
_described: dict[str, type[BaseModel]] = {}


def body_of(model: type[M]) -> Callable[[Request], Awaitable[M]]:
    """A dependency that reads the body as ``model``; to be used with ``described(model)``.

    It comes after the caller in a route's parameters: strangers' bodies are not read.
    """

    async def read(request: Request) -> M:
        raw = await request.body()
        return await by_size(len(raw), parse_body, model, raw)

    return read


def described(model: type[BaseModel]) -> dict[str, Any]:
    """``openapi_extra`` of a route that reads its body by itself."""
    _described[model.__name__] = model
    schema = {"$ref": REF + model.__name__}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of ``app`` with the models that FastAPI does not see."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        _, found = models_json_schema(
            [(model, "validation") for _, model in sorted(_described.items())], ref_template=REF + "{model}"
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update({PREFIX + name: schema for name, schema in found.get("$defs", {}).items()})
        schemas[Problem.__name__] = Problem.model_json_schema()
        for operation in (one for path in document["paths"].values() for one in path.values()):
            if "requestBody" in operation:
                operation["responses"] |= too_large()
        app.openapi_schema = document
    return app.openapi_schema
