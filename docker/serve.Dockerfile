# syntax=docker/dockerfile:1
# `pushgrid serve` with its data in the volume /data. docs/self-hosting.md says how it is run.
FROM python:3.13-slim AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM python:3.13-slim
COPY --from=wheel /wheel /wheel
RUN pip install --no-cache-dir "$(echo /wheel/*.whl)[serve,postgres]" \
 && useradd --create-home --uid 1000 pushgrid \
 && install --directory --owner 1000 --mode 700 /data
USER 1000
# The folder of the data is the server's own, whoever owns the volume.
VOLUME /data
WORKDIR /data
EXPOSE 7071
# With --tls-cert it speaks https, by a certificate for another name.
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import ssl\nfrom urllib.request import urlopen\ntry:\n  urlopen('http://127.0.0.1:7071/readyz')\nexcept OSError:\n  urlopen('https://127.0.0.1:7071/readyz', context=ssl._create_unverified_context())"]
ENTRYPOINT ["pushgrid", "serve", "--data", "/data/pushgrid", "--host", "0.0.0.0"]
# Who ends TLS: containers of this machine, and the machine itself. Replace it by your proxy's network, or by --tls-cert.
CMD ["--behind-proxy", "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"]
