#!/usr/bin/env bash
# Renews the lock files from pyproject.toml: `make lock`. Pass --upgrade to take newer versions.
# The files name no package index, so that they hold wherever the packages come from.
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
    local name=$1
    shift
    uv pip compile pyproject.toml requirements/build.in --constraint requirements/constraints.in "$@" \
        --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
        --quiet --output-file "requirements/$name.txt"
}

compile run --extra spark --extra broker "$@"
compile dev --all-extras "$@"
