#!/usr/bin/env bash
# Renews the lock files from pyproject.toml: `make lock`. Pass --upgrade to take newer versions.
# The files name no package index, so that they hold wherever the packages come from.
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
    local name=$1
    shift
    uv pip compile --constraint requirements/constraints.in "$@" \
        --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
        --quiet --output-file "requirements/$name.txt"
}

compile run pyproject.toml requirements/build.in --extra spark --extra broker "$@"
compile dev pyproject.toml requirements/build.in --all-extras "$@"
# For the image of the broker, in the same versions: what builds the wheel, and what runs.
compile build requirements/build.in --constraint requirements/run.txt "$@"
compile broker pyproject.toml --extra broker --constraint requirements/run.txt "$@"
