# A small image that serves models: docker build -t dcadl . && docker run -p 8000:8000 -v "$PWD/models:/models:ro" dcadl /models/mine.safetensors
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir ".[serve]"

FROM python:3.12-slim
COPY --from=build /venv /venv
RUN useradd --create-home --uid 10001 dcadl
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s \
  CMD ["/venv/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
# SIGTERM reaches the server itself: no shell in between. Set DCADL_TOKEN to ask for a bearer token.
ENTRYPOINT ["/venv/bin/dcadl", "serve", "--host", "0.0.0.0", "--port", "8000"]
