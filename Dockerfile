# syntax=docker/dockerfile:1
# Two images of one build: `api` serves and sweeps, `worker` verifies.
#   docker build --target api -t verifier-service-api .
#   docker build --target worker -t verifier-service-worker .
# What is shared between them is installed once, in the worker's stage, and the API takes the same versions:
# checks are keyed by the versions of the libraries that judge.

FROM python:3.11.15-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN groupadd --gid 10001 verifier \
    && useradd --uid 10001 --gid verifier --home-dir /tmp --no-create-home --shell /usr/sbin/nologin verifier \
    && install --directory --owner verifier --group verifier --mode 0700 /data

FROM base AS wheel
WORKDIR /source
COPY pyproject.toml README.md ./
COPY verifier_service verifier_service
COPY scheduler scheduler
COPY tiers tiers
COPY migrations migrations
COPY examples examples
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM base AS worker-environment
COPY --from=wheel /wheels /wheels
RUN python -m venv /opt/verifier \
    && wheel="$(ls /wheels/*.whl)" \
    && /opt/verifier/bin/pip install "${wheel}[distributed,math,code,schema,chem,simulation,high-fidelity]" \
    && /opt/verifier/bin/pip freeze --exclude verifier-service > /opt/verifier/constraints.txt

FROM base AS api-environment
COPY --from=wheel /wheels /wheels
COPY --from=worker-environment /opt/verifier/constraints.txt /constraints.txt
RUN python -m venv /opt/verifier \
    && wheel="$(ls /wheels/*.whl)" \
    && /opt/verifier/bin/pip install --constraint /constraints.txt "${wheel}[distributed,schema]"

FROM base AS runtime
ENV PATH=/opt/verifier/bin:$PATH \
    HOME=/tmp \
    VERIFIER_DATA=/data
WORKDIR /data
STOPSIGNAL SIGTERM
ENTRYPOINT ["verifier"]

FROM runtime AS worker
COPY --from=worker-environment /opt/verifier /opt/verifier
USER 10001:10001
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-m", "verifier_service.worker.pulse"]
CMD ["worker", "--tier", "fast"]

FROM runtime AS api
COPY --from=api-environment /opt/verifier /opt/verifier
ENV VERIFIER_HOST=0.0.0.0 \
    VERIFIER_PORT=8321
USER 10001:10001
EXPOSE 8321
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-m", "verifier_service.api.ready"]
CMD ["serve"]
