#!/bin/sh
# Epilogue of PBS Professional and OpenPBS ($PBS_HOME/mom_priv/epilogue): sums up a job at its end. See docs/epilog.md.
#
# PBS calls it as root on the first node of a job, with these arguments: job, user, group, name, session, resources asked for, resources used, queue,
# account, exit status. The lists are like walltime=01:00:00,ncpus=4,mem=8gb. It always succeeds: PBS would take a failure for one of the job.

job=$1 user=$2 asked=$6 used=$7
[ -n "$job" ] || exit 0

# of LIST NAME: the value of NAME= in a list.
of() {
    printf '%s\n' "$1" | tr ',' '\n' | sed -n "s/^ *$2=//p" | head -n 1
}

"${IOTIDE_SUMMARY:-$(dirname "$0")/summary.sh}" "$job" "$user" \
    "time=$(of "$asked" walltime),cpus=$(of "$asked" ncpus),nodes=$(of "$asked" nodect),memory=$(of "$asked" mem)" \
    "time=$(of "$used" walltime),cpu_time=$(of "$used" cput),memory=$(of "$used" mem)"
exit 0
