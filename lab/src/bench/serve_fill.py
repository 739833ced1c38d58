"""Fills a store of `iotide serve` with jobs that have ended: serve_fill.py DATABASE N"""
import sqlite3
import sys

database, n = sys.argv[1], int(sys.argv[2])
db = sqlite3.connect(database)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = OFF")
numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
db.execute(
    numbers
    + """ INSERT INTO jobs (job, cluster, uid, id, start_ns, end_ns, state, user, app, name, command, run_dir, partition, size,
          n_processes, trust, node)
          SELECT i, 'c', 1000 + i % 500, 'job-' || i, 1600000000000000000 + i * 60000000000, 1600000000000000000 + i * 60000000000 + 50000000000,
          CASE WHEN i % 1000 = 0 THEN 'partial' ELSE 'ended' END, 'user' || (i % 500), printf('%016x', i % 2000), 'program' || (i % 200),
          '/apps/program' || (i % 200) || ' --input case' || i || '.in', '/home/user' || (i % 500), 'p', 1 << i % 10, 1 << i % 10, 'cgroup', 'n1' FROM n""",
    (n,),
)
for name, size in [("read", 1000), ("write", 5000)]:
    db.execute(
        numbers + " INSERT INTO counters SELECT i, '', 'io', ?, 'posix', '/scratch', 10, i * ?, 1000000 FROM n",
        (n, name, size),
    )
db.execute("INSERT INTO losses (at_ns, job, what) SELECT start_ns, job, 'counter pages removed' FROM jobs WHERE state = 'partial'")
db.commit()
db.execute("ANALYZE")
db.commit()
assert db.execute("SELECT count(*) FROM jobs").fetchone() == (n,)
db.close()
