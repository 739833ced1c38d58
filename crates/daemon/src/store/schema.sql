-- What iotide serve keeps. Open it with any SQLite tool while the daemon runs: readers do not disturb it.
-- Times are nanoseconds since 1970.

CREATE TABLE IF NOT EXISTS meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS jobs (
    job         INTEGER PRIMARY KEY,
    cluster     TEXT    NOT NULL,
    uid         INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    start_ns    INTEGER NOT NULL,
    end_ns      INTEGER,
    state       TEXT    NOT NULL,  -- running, ended, partial
    user        TEXT    NOT NULL,
    app         TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    command     TEXT    NOT NULL,
    run_dir     TEXT    NOT NULL,
    partition   TEXT    NOT NULL,
    size        INTEGER NOT NULL,
    n_processes INTEGER NOT NULL DEFAULT 0,
    trust       TEXT    NOT NULL,  -- cgroup, claimed
    node        TEXT    NOT NULL,
    UNIQUE (cluster, uid, id, start_ns)
);
CREATE INDEX IF NOT EXISTS jobs_by_id    ON jobs (id, start_ns);
CREATE INDEX IF NOT EXISTS jobs_by_start ON jobs (start_ns);
CREATE INDEX IF NOT EXISTS jobs_by_uid   ON jobs (uid, start_ns);
CREATE INDEX IF NOT EXISTS jobs_by_user  ON jobs (user, start_ns);
CREATE INDEX IF NOT EXISTS jobs_by_app   ON jobs (app, start_ns);
CREATE INDEX IF NOT EXISTS jobs_by_name  ON jobs (name, start_ns);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, start_ns);

-- What makes one run of an application another measurement than the next.
CREATE TABLE IF NOT EXISTS runs (
    job        INTEGER PRIMARY KEY,
    build      TEXT NOT NULL,  -- of the program: build id, as digits
    parameters TEXT NOT NULL   -- IOTIDE_PARAMS
);

-- What the scheduler says of a job; of jobs without there is no row.
CREATE TABLE IF NOT EXISTS scheduled (
    job     INTEGER PRIMARY KEY,
    account TEXT NOT NULL,
    alias   TEXT NOT NULL  -- 4711_3: the third of an array
);
CREATE INDEX IF NOT EXISTS scheduled_by_alias ON scheduled (alias) WHERE alias <> '';

-- What a run measured beside its counters: its period, gauges while it ran.
CREATE TABLE IF NOT EXISTS figures (
    job      INTEGER NOT NULL,
    callpath TEXT    NOT NULL,
    metric   TEXT    NOT NULL,
    value    REAL    NOT NULL,
    PRIMARY KEY (job, callpath, metric)
) WITHOUT ROWID;

-- Which jobs have any three letters in their id, name or command: a part of a text is found without looking at all jobs.
CREATE VIRTUAL TABLE IF NOT EXISTS jobs_text USING fts5 (
    id, name, command, content = 'jobs', content_rowid = 'job', tokenize = 'trigram', detail = none
);
CREATE TRIGGER IF NOT EXISTS jobs_text_insert AFTER INSERT ON jobs BEGIN
    INSERT INTO jobs_text (rowid, id, name, command) VALUES (new.job, new.id, new.name, new.command);
END;
CREATE TRIGGER IF NOT EXISTS jobs_text_delete AFTER DELETE ON jobs BEGIN
    INSERT INTO jobs_text (jobs_text, rowid, id, name, command) VALUES ('delete', old.job, old.id, old.name, old.command);
END;
CREATE TRIGGER IF NOT EXISTS jobs_text_update AFTER UPDATE OF id, name, command ON jobs
    WHEN old.id <> new.id OR old.name <> new.name OR old.command <> new.command BEGIN
    INSERT INTO jobs_text (jobs_text, rowid, id, name, command) VALUES ('delete', old.job, old.id, old.name, old.command);
    INSERT INTO jobs_text (rowid, id, name, command) VALUES (new.job, new.id, new.name, new.command);
END;

CREATE TABLE IF NOT EXISTS applications (
    app      TEXT PRIMARY KEY,
    name     TEXT    NOT NULL,
    command  TEXT    NOT NULL,
    first_ns INTEGER NOT NULL,
    last_ns  INTEGER NOT NULL
) WITHOUT ROWID;

-- A job's profile: the sum of its rows. Those with a page are of processes that run, or whose page has not been removed yet.
CREATE TABLE IF NOT EXISTS counters (
    job   INTEGER NOT NULL,
    page  TEXT    NOT NULL,
    kind  TEXT    NOT NULL,  -- io, mpi, own, cgroup, threads, lost, killed
    name  TEXT    NOT NULL,  -- operation, function, name of the program's own counter; of threads, killed: other than ranks
    layer TEXT    NOT NULL,  -- of io: layer; of own: unit
    fs    TEXT    NOT NULL,
    calls INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    ns    INTEGER NOT NULL,
    PRIMARY KEY (job, page, kind, name, layer, fs)
) WITHOUT ROWID;

-- Counter pages. One that is done is counted in its job, and may be removed.
CREATE TABLE IF NOT EXISTS pages (
    page TEXT PRIMARY KEY,
    job  INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pages_by_job ON pages (job);

CREATE TABLE IF NOT EXISTS losses (
    loss  INTEGER PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    job   INTEGER,           -- none: of the whole machine
    what  TEXT    NOT NULL
);
CREATE INDEX IF NOT EXISTS losses_by_job ON losses (job);

-- Versions of rows that the daemon above may not have, as they are sent: one row, while there are any.
CREATE TABLE IF NOT EXISTS kept_versions (
    kept   INTEGER PRIMARY KEY CHECK (kept = 0),
    frames BLOB NOT NULL
);

-- What other nodes have counted for a job, row by row; their sum is among the job's counters, under the page '@'.
CREATE TABLE IF NOT EXISTS rows (
    job      INTEGER NOT NULL,
    node     TEXT    NOT NULL,
    epoch    INTEGER NOT NULL,
    id       TEXT    NOT NULL,  -- of the job, as that node knows it
    start_ns INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    final    INTEGER NOT NULL,
    counters BLOB    NOT NULL,
    PRIMARY KEY (job, node, epoch, id, start_ns)
) WITHOUT ROWID;

-- Jobs that have ended here and that the daemon above is not known to have.
CREATE TABLE IF NOT EXISTS unsent (
    job     INTEGER PRIMARY KEY,
    size    INTEGER NOT NULL,  -- processes here
    local   INTEGER NOT NULL,  -- whether nobody else knows its id
    rank    INTEGER NOT NULL,  -- the lowest here, plus one; 0: none
    n_ranks INTEGER NOT NULL   -- in all; 0: not known
);
