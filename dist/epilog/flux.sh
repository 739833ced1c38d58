#!/bin/sh
# Epilog of Flux (a file in /etc/flux/system/epilog.d): sums up a job at its end. See docs/epilog.md.
#
# Flux runs it on each node of a job; the first one sums up. It always succeeds: Flux drains a node whose epilog fails.

[ -n "$FLUX_JOB_ID" ] || exit 0
shown=$(timeout -k 5 10 flux jobs --no-header \
    --format '{nnodes}|{ncores}|{duration}|{runtime}|{username}|{ranks}|{id.f58}|{id.f58plain}|{id.dec}' "$FLUX_JOB_ID" 2>/dev/null | head -n 1)

# field N: the Nth value.
field() {
    printf '%s\n' "$shown" | cut -d '|' -f "$1" -s
}

rank=$(timeout -k 5 10 flux getattr rank 2>/dev/null)
first=$(field 6 | sed 's/^[^0-9]*//; s/[^0-9].*//')
[ -z "$rank" ] || [ -z "$first" ] || [ "$rank" = "$first" ] || exit 0
# A limit of zero is none.
limit=$(field 3)
case $limit in
0 | 0.0) limit= ;;
esac
# In a job, FLUX_JOB_ID is written as the locale allows.
"${IOTIDE_SUMMARY:-$(dirname "$0")/summary.sh}" "$FLUX_JOB_ID $(field 7) $(field 8) $(field 9)" "$(field 5)" \
    "nodes=$(field 1),cpus=$(field 2),time=$limit" "time=$(field 4)"
exit 0
