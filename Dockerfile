# The broker: docker build -t twigcast . ; docs/how-to/run-a-broker.md says how to run it.
#
# The wheel is built with the locked Rust crates, and what it needs is installed from requirements/broker.txt, by hashes.
# The last stage has neither a compiler nor pip. Other base images, or one's own mirrors of these:
# docker build --build-arg RUST=... --build-arg PYTHON=...
ARG RUST=rust:1.95-slim-bookworm
ARG PYTHON=python:3.13-slim-bookworm

FROM ${RUST} AS wheel
# Of the distribution's Python only what starts maturin; the wheel is for every Python from 3.11 on.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements/build.txt requirements/build.txt
RUN python3 -m venv /build && /build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY . .
RUN /build/bin/maturin build --release --locked --out /wheels

FROM ${PYTHON} AS packages
WORKDIR /install
COPY requirements/broker.txt broker.txt
COPY --from=wheel /wheels /wheels
RUN python3 -m venv /opt/twigcast \
    && /opt/twigcast/bin/python -m pip install --no-cache-dir --require-hashes --only-binary :all: -r broker.txt \
    && /opt/twigcast/bin/python -m pip install --no-cache-dir --no-index --no-deps /wheels/*.whl \
    && /opt/twigcast/bin/python -m pip uninstall --yes pip

FROM ${PYTHON}
COPY --from=packages /opt/twigcast /opt/twigcast
# The store is the only place that is written to, so that the root can be mounted read-only.
RUN groupadd --gid 10001 twigcast \
    && useradd --uid 10001 --gid twigcast --no-create-home --home-dir /var/lib/twigcast twigcast \
    && install --directory --owner=twigcast --group=twigcast --mode=700 /var/lib/twigcast
ENV PATH=/opt/twigcast/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    TWIGCAST_HOST=0.0.0.0 \
    TWIGCAST_LOG_FORMAT=json \
    TWIGCAST_STORE=/var/lib/twigcast/store
USER 10001:10001
WORKDIR /var/lib/twigcast
VOLUME /var/lib/twigcast
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/ready', timeout=4)"]
ENTRYPOINT ["twigcast"]
CMD ["serve"]
