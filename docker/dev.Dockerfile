# syntax=docker/dockerfile:1
# Pushgrid for local use: the command, the local host and Azurite. docs/install.md says how it is run.
FROM python:3.13-slim AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM python:3.13-slim
COPY --from=wheel /wheel /wheel
RUN pip install --no-cache-dir "$(echo /wheel/*.whl)[local]" && useradd --create-home --uid 1000 pushgrid
USER 1000
# Fetches Azurite and Node into the image, and proves that it works.
RUN pushgrid demo --once && rm -rf ~/.npm
# The folder whose pushgrid.json or pushgrid.yaml is applied.
WORKDIR /work
EXPOSE 7071
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:7071/status/health')"]
ENTRYPOINT ["pushgrid"]
CMD ["dev", "--host", "0.0.0.0"]
