# The program in its own environment, with the compiled allocator; no compiler, no root.
#   docker build -t dra-scheduler:0.1.0 .
FROM python:3.11 AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 DRA_COMPILE=1
COPY requirements/ requirements/
RUN python -m venv /build && /build/bin/pip install --require-hashes -r requirements/build.txt \
 && python -m venv /venv && /venv/bin/pip install --require-hashes -r requirements/run.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY cel/ cel/
COPY allocator/ allocator/
COPY scheduler/ scheduler/
# Build tools and pip are not part of the image.
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && /venv/bin/pip install --no-deps --no-index /dist/*.whl \
 && /venv/bin/python -m compileall -q /venv/lib \
 && /venv/bin/pip uninstall -y pip

FROM python:3.11-slim
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 10260
ENTRYPOINT ["dra"]
