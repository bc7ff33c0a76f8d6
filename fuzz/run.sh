#!/usr/bin/env bash
# Runs every fuzz target, or those named, for a bounded time: fuzz/run.sh SECONDS [TARGET ...]
# Needs Cargo and a C++ compiler; the stable compiler serves, since the core has no unsafe code for a sanitizer to watch.
# `wellformedness` needs Python with the built package, atheris and lxml: PYTHON names it.
# FUZZ_SEED makes a run begin as another did; without it, each has a seed of its own, told in its log.
# What was found lies in build/fuzz, the input in a file of its own; the exit status is 1 then.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?"how many seconds each target is to run"}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(scan records parse answer stream packets wellformedness)

host=$(rustc -vV | sed -n 's/^host: //p')
binaries=fuzz/target/$host/release
mkdir -p build/fuzz

# What cargo-fuzz passes, without its sanitizer, which is all it needs a nightly compiler for.
coverage=(
    --cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0
)

built=
build() {
    [ -z "$built" ] || return 0
    RUSTFLAGS="${coverage[*]}" cargo build --quiet --release --locked --manifest-path fuzz/Cargo.toml --target "$host"
    built=yes
}

status=0
for target in "${targets[@]}"; do
    inputs=("fuzz/corpus/$target")
    options=(-max_total_time="$seconds" -timeout=60 -rss_limit_mb=3000 -seed="${FUZZ_SEED:-0}"
        -artifact_prefix="build/fuzz/$target-")
    case $target in
        wellformedness)
            python=${PYTHON:-.venv/bin/python}
            if ! "$python" -c 'import atheris' 2>/dev/null; then
                echo "$target: NOT RUN: atheris is not installed, or not built for this version of Python"
                continue
            fi
            # The compiled module is not watched, so that nothing is learnt here: what `scan` found leads on.
            command=("$python" fuzz/wellformedness.py)
            inputs+=(fuzz/seeds/scan fuzz/corpus/scan)
            options+=(-dict=fuzz/xml.dict -len_control=0) ;;
        parse)
            build
            command=("$binaries/$target")
            inputs+=(fuzz/seeds/parse)
            options+=(-dict=fuzz/query.dict) ;;
        *)
            build
            command=("$binaries/$target")
            inputs+=("fuzz/seeds/$target")
            options+=(-dict=fuzz/xml.dict) ;;
    esac
    mkdir -p "${inputs[@]}"
    log=build/fuzz/$target.log
    if "${command[@]}" "${inputs[@]}" "${options[@]}" >"$log" 2>&1; then
        echo "$target: clean, $(grep -aoE '^Done [0-9]+ runs' "$log" || echo 'Done') in $seconds s"
    else
        echo "$target: FAILED; the end of $log:" >&2
        tail -n 30 "$log" >&2
        status=1
    fi
done
exit $status
