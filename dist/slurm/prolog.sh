#!/bin/sh
# Prolog for Slurm: tells the iotide daemon of this node what Slurm knows about a job. See docs/slurm.md.
#
# slurmd runs this as root on each node of a job. It writes /run/iotide/jobs/JOBID, which the daemon reads when the job's first process
# appears. It asks no other daemon, and always succeeds: Slurm drains a node whose prolog fails.

jobs=${IOTIDE_JOBS:-/run/iotide/jobs}

tell() {
    # The daemon sees the whole file or none.
    printf '%s=%s\n' \
        uid "$SLURM_JOB_UID" \
        user "$SLURM_JOB_USER" \
        account "$SLURM_JOB_ACCOUNT" \
        partition "$SLURM_JOB_PARTITION" \
        restarts "${SLURM_JOB_RESTART_COUNT:-0}" \
        leader "$SLURM_HET_JOB_ID" \
        alias "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}" \
        >"$jobs/.$1.$$" && mv -f "$jobs/.$1.$$" "$jobs/$1"
}

[ -n "$SLURM_JOB_ID" ] && [ -d "${jobs%/*}" ] && [ ! -L "$jobs" ] || exit 0
umask 022
mkdir -p "$jobs" 2>/dev/null || exit 0
tell "$SLURM_JOB_ID" 2>/dev/null
# Tasks of a component of a heterogeneous job have the id of its first component in their environment.
if [ -n "$SLURM_HET_JOB_ID" ] && [ "$SLURM_HET_JOB_ID" != "$SLURM_JOB_ID" ]; then
    tell "$SLURM_HET_JOB_ID" 2>/dev/null
fi
exit 0
