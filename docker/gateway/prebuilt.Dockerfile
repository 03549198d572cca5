# The gateway in a container, from binaries that were built outside: `make build`, then `docker/build-images.sh gateway`.
ARG BASE=debian:bookworm-slim

FROM ${BASE}
COPY himalia himalia-shim /usr/local/bin/
COPY entrypoint.sh /usr/local/bin/himalia-entrypoint
COPY kernelspec /usr/local/share/jupyter/kernels/python3
ENTRYPOINT ["himalia-entrypoint"]
CMD ["serve"]
