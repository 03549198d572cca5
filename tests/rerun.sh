#!/bin/sh
# Runs a test command; if it fails, once more for each of RERUNS (default 0), and says so.
set -u
reruns=${RERUNS:-0}
until "$@"; do
  status=$?
  [ "$reruns" -gt 0 ] || exit "$status"
  reruns=$((reruns - 1))
  echo "flaky or failing: \`$*\` ended with $status; it runs once more" >&2
done
