#!/usr/bin/env bash
# demo.sh: a service of its own, the sample graph analysed, optimised, posted again and run, and what was found.
#
#   demo.sh DAEMON CLI GRAPH [REFERENCE]
#
# DAEMON and CLI are the programs of a build or an installation, REFERENCE a program that compares an output of the plan
# with plain C. `./dev demo` and the tests of the Debian package run this. DOVETAIL_DEVICE is the device, as --device.
# It leaves plan, log and cache in a folder, which it names. Any answer that is not as it should be ends it with status 1.
set -euo pipefail
daemon=$1 cli=$2 graph=$3 reference=${4:-}
device=${DOVETAIL_DEVICE:-auto} pid=
say() { printf '\n== %s\n' "$*"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }

timed() {
    local start=$EPOCHREALTIME
    "$@"
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "(%.2f s)\n", b - a }' >&2
}

dir=$(mktemp -d "${TMPDIR:-/tmp}/dovetail-demo.XXXXXX")
dovetail=("$cli" --socket "$dir/dovetail.sock")
trap '[ -z "$pid" ] || { kill "$pid" 2>/dev/null && wait "$pid"; } || true' EXIT

say "starting dovetaild --device $device on $dir/dovetail.sock"
"$daemon" --socket "$dir/dovetail.sock" --device "$device" --cache "$dir/cache.db" </dev/null 2>"$dir/dovetaild.log" &
pid=$!
for ((i = 0; i < 600; i++)); do
    [ ! -S "$dir/dovetail.sock" ] || break
    kill -0 "$pid" 2>/dev/null || { cat "$dir/dovetaild.log" >&2; die "the service ended"; }
    sleep 0.1
done
"${dovetail[@]}" status
"${dovetail[@]}" devices

say "dovetail analyze $graph"
timed "${dovetail[@]}" analyze "$graph"
say "dovetail optimize $graph -o $dir/plan"
timed "${dovetail[@]}" optimize "$graph" -o "$dir/plan"
say "the same graph posted again: from the cache"
timed "${dovetail[@]}" optimize "$graph" -o "$dir/again" >"$dir/again.txt"
sed -n 1p "$dir/again.txt"
grep -q 'cache hit' "$dir/again.txt" || die "the second answer did not come from the cache"
cmp "$dir/plan/plan.json" "$dir/again/plan.json" || die "the second answer is another plan"
say "running the posted launches and the plan: the hashes agree"
"${dovetail[@]}" run "$graph" | tee "$dir/run-graph.txt"
"${dovetail[@]}" run "$dir/plan/plan.json" --dump "$dir/out" | tee "$dir/run-plan.txt"
grep -q sha256: "$dir/run-graph.txt" || die "the run gave no hash"
cmp <(grep -o 'sha256:.*' "$dir/run-graph.txt") <(grep -o 'sha256:.*' "$dir/run-plan.txt") || die "the hashes differ"
[ -z "$reference" ] || echo "against plain C in double precision: $("$reference" "$dir/out")"

if "${dovetail[@]}" report "$graph" -o "$dir/report.html" 2>/dev/null; then
    echo "report: $dir/report.html"
fi
kill "$pid"
wait "$pid" || die "the service ended with an error: $(tail -n 3 "$dir/dovetaild.log")"
pid=
say "done; plan, log and cache are in $dir"
