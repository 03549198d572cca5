# Sourced by scripts that fetch packages in a minimal system.

# registry_settings FILE: what this machine's environment says about the registries of pip, npm and cargo, as NAME=VALUE in the array
# `settings`. Where this machine trusts more certificates than Debian does, and so reaches the registries, `certificates` is their
# file here and FILE its place in the minimal system; else it is empty.
registry_settings() {
  local setting name
  settings=() certificates=
  while IFS= read -r setting; do
    case "${setting%%=*}" in
      PIP_FIND_LINKS | PIP_CERT | CARGO_HOME | CARGO_TARGET_DIR | CARGO_MAKEFLAGS | CARGO_PKG_* | CARGO_MANIFEST_*) ;;
      PIP_* | npm_config_* | CARGO_* | *_proxy | *_PROXY) settings+=("$setting") ;;
    esac
  done < <(env)
  if [ -n "$(find /usr/local/share/ca-certificates -name '*.crt' 2>/dev/null)" ] || [ -n "${SSL_CERT_FILE:-}" ]; then
    certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
    for name in PIP_CERT SSL_CERT_FILE CARGO_HTTP_CAINFO NODE_EXTRA_CA_CERTS npm_config_cafile; do
      settings+=("$name=$1")
    done
  fi
}
