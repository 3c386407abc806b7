#!/usr/bin/env bash
# Install the systems that quicksilver is compared with. What cannot be installed
# is left out: its row in the table then says how to get it.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=()
command -v ddsperf >/dev/null || packages+=(cyclonedds-tools)
[ -e /usr/share/java/jgroups.jar ] || packages+=(libjgroups-java)
command -v javac >/dev/null || packages+=(default-jdk-headless)

if [ ${#packages[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "not a Debian system: install the equivalents of ${packages[*]} yourself" >&2
  elif [ "$(id -u)" -ne 0 ]; then
    echo "to measure all peers, as root: apt-get install ${packages[*]}" >&2
  else
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -q -y --no-install-recommends "${packages[@]}"; } >&2 ||
      echo "apt-get failed; going on without ${packages[*]}" >&2
  fi
fi

.venv/bin/python -c 'import zmq, zenoh' 2>/dev/null ||
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[peers]' ||
  echo "pip failed; going on without pyzmq and zenoh" >&2
