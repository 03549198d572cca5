#!/bin/bash
# Runs in the minimal system that wheel.sh made: what the client's README tells a stranger to type, as an ordinary user.
set -euo pipefail
if [ "$(id -u)" = 0 ]; then
  useradd --create-home --shell /bin/bash ada
  # `setpriv` keeps the environment, which has the registries' settings.
  exec setpriv --reuid ada --regid ada --init-groups env HOME=/home/ada "$0" "$@"
fi
cd
started=$SECONDS
step() { echo "$((SECONDS - started)) s: $1"; }

python3 -m venv himalia
. himalia/bin/activate
pip install --quiet --disable-pip-version-check "$1"
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
