# The agent and the command, in one image, as a user without rights.
FROM python:3.13-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY clusters ./clusters
COPY crdt ./crdt
COPY replicator ./replicator
RUN python -m venv /opt/replicator && /opt/replicator/bin/pip install --no-cache-dir .

FROM python:3.13-slim
RUN useradd --uid 65532 --no-create-home replicator \
    && mkdir --mode 0755 /mesh && chown replicator:replicator /mesh
COPY --from=build /opt/replicator /opt/replicator
ENV PATH=/opt/replicator/bin:$PATH PYTHONUNBUFFERED=1
USER replicator
VOLUME /mesh
ENTRYPOINT ["replicator"]
CMD ["--help"]
