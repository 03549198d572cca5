# The gateway in a container, from binaries that were built outside: `make build`, then `docker/build-images.sh gateway`.
ARG BASE=debian:bookworm-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251

FROM ${BASE}
COPY himalia himalia-shim /usr/local/bin/
COPY entrypoint.sh /usr/local/bin/himalia-entrypoint
COPY kernelspec /usr/local/share/jupyter/kernels/python3
ENTRYPOINT ["himalia-entrypoint"]
CMD ["serve"]
