# The program in its own environment, with the compiled allocator; no compiler, no pip, no root.
#   docker build -t dra-scheduler:0.1.0 .
# A tag may lead to another image tomorrow. To build on images that you know, name them by digest, which
# `docker buildx imagetools inspect python:3.11-slim` prints:
#   docker build --build-arg BUILD_IMAGE=python:3.11@sha256:... --build-arg BASE_IMAGE=python:3.11-slim@sha256:... .
ARG BUILD_IMAGE=python:3.11
ARG BASE_IMAGE=python:3.11-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 DRA_COMPILE=1
COPY requirements/ requirements/
# Build tools and pip have an environment of their own.
RUN python -m venv /build && /build/bin/pip install --require-hashes -r requirements/build.txt \
 && python -m venv --without-pip /venv \
 && /build/bin/pip --python /venv/bin/python install --require-hashes -r requirements/run.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY cel/ cel/
COPY allocator/ allocator/
COPY scheduler/ scheduler/
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && /build/bin/pip --python /venv/bin/python install --no-deps --no-index /dist/*.whl \
 && /venv/bin/python -m compileall -q /venv/lib

FROM ${BASE_IMAGE}
# The base image has pip, setuptools and wheel.
RUN lib=$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))') \
 && bin=$(python -c 'import sysconfig; print(sysconfig.get_path("scripts"))') \
 && rm -rf "$lib/site-packages" "$lib/ensurepip" "$bin"/pip* "$bin"/wheel*
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 10260
ENTRYPOINT ["dra"]
