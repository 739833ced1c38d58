#!/bin/sh
# Post-execution command of LSF (POST_EXEC of a queue, or HOST_POST_EXEC): sums up a job at its end. See docs/epilog.md.
#
# What was asked for and used is what bjobs says. It always succeeds: LSF would take a failure for one of the host.

[ -n "$LSB_JOBID" ] || exit 0
case ${LSB_JOBINDEX:-0} in
0) element=$LSB_JOBID ;;
*) element="$LSB_JOBID[$LSB_JOBINDEX]" ;;
esac
shown=$(timeout -k 5 10 bjobs -noheader \
    -o "nreq_slot nexec_host runtimelimit memlimit run_time cpu_used max_mem user delimiter='|'" "$element" 2>/dev/null | head -n 1)

# field N: the Nth value.
field() {
    printf '%s\n' "$shown" | cut -d '|' -f "$1" -s
}

user=$(field 8)
"${IOTIDE_SUMMARY:-$(dirname "$0")/summary.sh}" "$LSB_JOBID" "${user:-${LSFUSER:-}}" \
    "cpus=$(field 1),nodes=$(field 2),time=$(field 3),memory=$(field 4)" \
    "time=$(field 5),cpu_time=$(field 6),memory=$(field 7)"
exit 0
