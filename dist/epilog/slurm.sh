#!/bin/sh
# Epilog of slurmctld (EpilogSlurmctld): sums up a job at its end. See docs/epilog.md.
#
# Slurm keeps a job for MinJobAge seconds after its end; what it asked for is read from there. It always succeeds.

[ -n "$SLURM_JOB_ID" ] || exit 0
# Not the first component of a heterogeneous job: all components are one job.
[ "${SLURM_HET_JOB_ID:-$SLURM_JOB_ID}" = "$SLURM_JOB_ID" ] || exit 0
shown=$(timeout -k 5 10 scontrol -o show job "$SLURM_JOB_ID" 2>/dev/null | head -n 1)

# field NAME: the value of NAME= in a line of words.
field() {
    printf ' %s ' "$shown" | sed -n "s/.* $1=\([^ ]*\) .*/\1/p"
}

# Of a job that ends, Slurm counts only the nodes that have not ended yet.
if [ -n "$SLURM_JOB_NODELIST" ]; then
    nodes=$(timeout -k 5 10 scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null | grep -c .)
else
    nodes=$(field NumNodes | sed 's/-.*//')
fi
memory=$(field TRES | tr ',' '\n' | sed -n 's/^mem=//p')
asked="time=$(field TimeLimit),cpus=$(field NumCPUs),nodes=$nodes,memory=$memory"
restarts=$(field Restarts)
job=$SLURM_JOB_ID
case $restarts in
'' | 0) ;;
*) job=$job.r$restarts ;;
esac
# Slurm starts a requeued job only when this script has ended: it does not wait for the daemon.
setsid "${IOTIDE_SUMMARY:-$(dirname "$0")/summary.sh}" "$job" "${SLURM_JOB_USER:-}" "$asked" "time=$(field RunTime)" \
    </dev/null >/dev/null 2>&1 &
exit 0
