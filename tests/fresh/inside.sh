#!/bin/bash
# Runs in the minimal system that run.sh made: what README tells a stranger to type.
set -euo pipefail
what=$1
say() { printf '\n== %s\n' "$*"; }
die() { echo "FAILED: $*" >&2; exit 1; }
installed() { dpkg-query -W -f '${Package}\n' | sort; }

say "git and make, which brought the sources here"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends git make >/dev/null
cd /himalia
git config --global --add safe.directory /himalia

useradd --create-home --shell /bin/bash ada
chown -R ada: /himalia
# `setpriv` keeps the environment, which has the registries' settings.
as_ada() { setpriv --reuid ada --regid ada --init-groups env HOME=/home/ada "$@"; }

say "make demo, as an ordinary user without a terminal: the missing packages are named, none is installed"
before=$(installed)
status=0
as_ada make demo </dev/null >/tmp/refusal 2>&1 || status=$?
cat /tmp/refusal
[ "$status" = 2 ] || die "make demo ended with $status, not 2"
grep -q 'missing: .*gcc' /tmp/refusal || die "the compiler is not named"
grep -q 'sudo apt-get install .*gcc' /tmp/refusal || die "the command is not named"
status=0
make prerequisites </dev/null >/tmp/refusal 2>&1 || status=$?
[ "$status" = 2 ] && [ "$before" = "$(installed)" ] || die "make prerequisites installed without an answer"

say "make demo, as root on a terminal: one question, and nothing without a yes"
before=$(installed)
script -qec 'make demo' /dev/null <<<"n" >/tmp/refusal 2>&1 || true
grep -q 'Install with apt-get: .*gcc' /tmp/refusal || die "make demo does not ask on a terminal"
[ "$before" = "$(installed)" ] || die "packages were installed without a yes"

say "make demo, as root without a terminal: it installs the packages and says so"
make demo </dev/null 2>&1 | tee /tmp/demo.log
grep -q '^installing: .*gcc' /tmp/demo.log || die "the installation is not announced"
[ -s target/demo/mauna-loa-co2.png ] || die "the demo saved no plot"

say "make demo, as an ordinary user"
rm -r target/demo
chown -R ada: /himalia
as_ada make demo
[ -s target/demo/mauna-loa-co2.png ] || die "the demo saved no plot"

say "make prerequisites-test"
status=0
make check-test >/tmp/refusal 2>&1 || status=$?
[ "$status" = 2 ] && grep -q 'missing: .*chromium' /tmp/refusal || die "make test does not say that Chromium is missing"
make prerequisites-test YES=1
make check-test

if [ "$what" = test ]; then
  say "make test"
  make test
fi
say "all that README says works here"
