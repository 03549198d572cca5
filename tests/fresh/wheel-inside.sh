#!/bin/bash
# Runs in the minimal system that wheel.sh made, as an ordinary user: what README and docs/start/interfaces.md tell a user of the wheel to type.
set -euo pipefail
if [ "$(id -u)" = 0 ]; then
  useradd --create-home --shell /bin/bash ada
  # `setpriv` keeps the environment, which has the registries' settings.
  exec setpriv --reuid ada --regid ada --init-groups env HOME=/home/ada "$0" "$@"
fi
cd
started=$SECONDS
step() { echo "$((SECONDS - started)) s: $1"; }

# The text of a block of these pages: the first one after a line with these words.
block() { sed -n "/$1/,\$p" /opt/pages.md | sed -n '/^```[a-z]*$/,$p' | sed 1d | sed '/^```$/,$d'; }

# The block of the wheel; its last line starts the gateway.
mkdir -p target/wheels && cp "$1" target/wheels
block '^<!-- wheel -->' >install.sh
[ "$(tail -n 1 install.sh)" = "himalia up" ] || { echo "the block of the wheel does not end with himalia up" >&2; exit 1; }
sed -i '$d' install.sh
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1
. ./install.sh
step "the wheel is installed"

himalia up >up.log 2>&1 &
gateway=$!
end() { kill -INT $gateway 2>/dev/null && wait $gateway || true; }
trap end EXIT
until grep -q 'is ready at' up.log; do
  kill -0 $gateway 2>/dev/null || { cat up.log >&2; exit 1; }
  sleep 0.2
done
step "himalia up is ready"

python3 - <<'PY'
from himalia import Gateway

with Gateway() as gateway, gateway.session() as session:
    result = session.execute("import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); plt.show()", check=True)
    result.images[0].save("plot.png")
    print("isolation:", session.info["isolation"])
PY
[ "$(head -c 4 plot.png | tail -c 3)" = PNG ] || { echo "no plot" >&2; exit 1; }
step "the first plot is made"

# What the pages show next, on this gateway.
printf 'region,amount\nnorth,3\n' >sales.csv
block '^`himalia exec` creates the session' >exec.sh
. ./exec.sh
block '^There are typed clients for' >client.py
[ "$(python3 client.py)" = 42 ] || { echo "the pages' client does not print 42" >&2; exit 1; }
himalia doctor >doctor.log || { cat doctor.log >&2; exit 1; }
echo "the commands of the pages work"
