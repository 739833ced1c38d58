#!/bin/sh
# Epilog for Slurm: removes what the prolog wrote about jobs, a day after their end. See docs/slurm.md.
#
# The daemon needs no message that a job is over: it sees the end of each process. A daemon that was not running when the job ended still
# finds the job's counter pages and this file. It always succeeds: Slurm drains a node whose epilog fails.

jobs=${IOTIDE_JOBS:-/run/iotide/jobs}

[ -n "$SLURM_JOB_ID" ] && [ -d "$jobs" ] || exit 0
for job in "$SLURM_JOB_ID" $SLURM_HET_JOB_ID; do
    [ -f "$jobs/$job" ] && echo ended=1 >>"$jobs/$job"
done 2>/dev/null
find "$jobs" -type f -mmin +1440 -exec grep -q '^ended=1$' {} \; -exec rm -f {} \; 2>/dev/null
exit 0
