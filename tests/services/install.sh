#!/usr/bin/env bash
# What the tests need from the system: PostgreSQL's server, Chromium, and Maven, which fetches Kafka (kafka.sh). Installs
# what is missing with apt-get, when run by root or with sudo without a password; says what to install otherwise.
set -euo pipefail

missing=()

has_postgresql() {
    command -v initdb >/dev/null && return
    if command -v pg_config >/dev/null && [ -x "$(pg_config --bindir)/initdb" ]; then return; fi
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

has_chromium() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null && return
    done
    return 1
}

has_postgresql || missing+=(postgresql)
has_chromium || missing+=(chromium)
command -v mvn >/dev/null || missing+=(maven)
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive); else as_root=(false); fi
fi
if command -v apt-get >/dev/null && [ "${as_root[*]:-}" != false ]; then
    echo "installing for the tests: ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    if "${as_root[@]}" apt-get update -qq && "${as_root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
    then exit 0; fi
fi
echo "the tests need, and this could not install: ${missing[*]}" >&2
echo "install them with your system's packages (Debian, Ubuntu: sudo apt-get install ${missing[*]}) and run it again" >&2
exit 1
