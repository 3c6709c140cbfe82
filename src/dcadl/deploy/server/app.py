"""The FastAPI application: paths, tokens, metrics, documentation."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from pydantic import BaseModel

from dcadl import __version__
from dcadl.deploy.server.answers import Answer, Explanation
from dcadl.deploy.server.direct_route import Check, direct_route
from dcadl.deploy.server.documentation import REFUSALS, request_body
from dcadl.deploy.server.limits import Limits, Refusal
from dcadl.deploy.server.models import BYTE, Models, Served
from dcadl.deploy.server.requests import read_samples
from dcadl.deploy.translate import operations_of
from dcadl.deploy.web_page import web_page


class Answers(BaseModel):
    """Answers in the order of the samples."""

    model: str
    answers: list[Answer]


class Explanations(BaseModel):
    """Explanations in the order of the samples."""

    model: str
    explanations: list[Explanation]


class ModelFacts(BaseModel):
    """A model that is served."""

    name: str
    method: str
    classes: list[str]
    sample_shape: list[int]
    takes_pictures: bool
    explains: bool
    error: str | None


ModelName = Annotated[str | None, Query(description="Which model; the first one if left out.")]


def create_app(paths: Sequence[Path], *, token: str | None = None, limits: Limits | None = None) -> FastAPI:
    """The application for these model files."""
    limits = limits or Limits()
    models = Models(paths, limits)
    metrics = Metrics(models)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        models.start(metrics.reloaded)
        yield
        await models.stop()

    app = FastAPI(title="dcadl", version=__version__, lifespan=running, openapi_url=None)
    app.add_middleware(Measured, metrics=metrics)
    app.exception_handler(Refusal)(_refused)
    check = _guard(token)
    _add_answers(app, models, limits, check)
    _add_facts(app, models, metrics, [Depends(check)])
    return app


def _add_answers(app: FastAPI, models: Models, limits: Limits, check: Check) -> None:
    body = request_body(models.named(None).sample_shape, limits.batch)
    options: Any = {"methods": ["POST"], "openapi_extra": body, "responses": REFUSALS}
    options["route_class_override"] = direct_route(check)

    async def predict(request: Request, model: ModelName = None) -> Response:
        """Label, scores and probabilities of pictures or arrays."""
        served = models.named(model)
        found = await served.answers.ask(await read_samples(request, served, limits))
        return _json(Answers.model_construct(model=served.name, answers=list(found)))

    async def explain(request: Request, model: ModelName = None) -> Response:
        """Where in each picture the evidence for its label lies."""
        served = models.named(model)
        found = await served.explanations.ask(await read_samples(request, served, limits))
        return _json(Explanations.model_construct(model=served.name, explanations=list(found)))

    app.router.add_api_route("/predict", predict, response_model=Answers, **options)
    app.router.add_api_route("/explain", explain, response_model=Explanations, **options)


def _add_facts(app: FastAPI, models: Models, metrics: Metrics, guard: list[Any]) -> None:
    @app.get("/models", dependencies=guard, responses=REFUSALS)
    async def list_models() -> list[ModelFacts]:
        """The models that are served."""
        return [_facts(served) for served in models.by_name.values()]

    @app.get("/openapi.json", dependencies=guard, include_in_schema=False)
    async def document() -> dict[str, Any]:
        """This interface, described; behind the token like the rest."""
        return app.openapi()

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the server answers; needs no token."""
        return {"status": "ok"}

    @app.get("/metrics", dependencies=guard, response_class=PlainTextResponse, responses=REFUSALS)
    async def read_metrics() -> Response:
        """Counters and times in the format of Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/", dependencies=guard, response_class=HTMLResponse, responses=REFUSALS)
    async def page(model: ModelName = None) -> str:
        """A page to try a model on; it runs in the browser."""
        served = models.named(model)
        try:
            return web_page(operations_of(served.loaded.model, scale=BYTE), served.name)
        except ValueError as error:
            raise Refusal(404, f"There is no page for {served.name}: {error}") from None


class Metrics:
    """What Prometheus is told, in a registry of its own: several servers may run in one process."""

    def __init__(self, models: Models) -> None:
        self.registry = CollectorRegistry()
        options: Any = {"registry": self.registry}
        self.requests = Counter("dcadl_requests", "Requests answered.", ["path", "status"], **options)
        self.seconds = Histogram("dcadl_request_seconds", "Time of a request.", ["path"], **options)
        self.batches = Histogram(
            "dcadl_batch_samples", "Samples answered together.", buckets=[2**k for k in range(9)], **options
        )
        self.reloads = Counter("dcadl_model_reloads", "Model files read again.", ["model"], **options)
        waiting = Gauge("dcadl_waiting_samples", "Samples in the queue.", ["model"], **options)
        for served in models.by_name.values():
            served.answers.on_batch = self.batches.observe
            waiting.labels(served.name).set_function(partial(getattr, served, "waiting"))

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def reloaded(self, name: str) -> None:
        """A model file was read again."""
        self.reloads.labels(name).inc()

    def text(self) -> bytes:
        """All of it."""
        return generate_latest(self.registry)


class Measured:
    """Counts and times requests. Unknown paths share one name, so that nobody can fill the memory."""

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Hand the request on, and note the status of its answer."""
        start, status = perf_counter(), 0

        async def noted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self.app(scope, receive, noted)
        if scope["type"] == "http":
            path = getattr(scope.get("route"), "path", "unknown")
            self.metrics.answered(path, status, perf_counter() - start)


def _guard(token: str | None) -> Check:
    async def check(request: Request) -> None:
        if token is None:
            return
        given = request.headers.get("authorization", "").encode("latin-1")  # the bytes that were sent
        # compared in constant time: how long it takes tells nothing of how much was right
        if not secrets.compare_digest(given, f"Bearer {token}".encode()):
            raise Refusal(401, "A bearer token is needed: Authorization: Bearer TOKEN.")

    return check


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(error.status)
    return JSONResponse({"detail": error.reason}, status_code=error.status, headers=headers)


def _json(found: BaseModel) -> Response:
    """What we made ourselves is not checked again on its way out."""
    return Response(found.model_dump_json(), media_type="application/json")


def _facts(served: Served) -> ModelFacts:
    return ModelFacts(
        name=served.name,
        method=type(served.loaded.model).__name__,
        classes=served.loaded.names,
        sample_shape=list(served.sample_shape),
        takes_pictures=served.takes_pictures,
        explains=served.loaded.program is not None,
        error=served.error,
    )
