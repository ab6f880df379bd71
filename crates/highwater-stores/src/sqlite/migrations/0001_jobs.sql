-- What belongs to the file as a whole.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- The feed of all domains. `rev` is the order of commits, because there is one writer; it is never
-- reused, because a scope is named after the revision that began it.
CREATE TABLE feed (
    rev       INTEGER PRIMARY KEY AUTOINCREMENT,
    scope     INTEGER NOT NULL,
    seq       INTEGER NOT NULL,         -- dense within its scope: 1, 2, 3 …
    at        INTEGER NOT NULL,         -- microseconds since 1970, UTC
    kind      TEXT NOT NULL,            -- what happened
    event_key TEXT,                     -- what makes the write idempotent within its scope
    body      TEXT NOT NULL             -- JSON
);
CREATE UNIQUE INDEX feed_by_scope ON feed (scope, seq);
-- The key first, because new ones lie side by side across all scopes.
CREATE UNIQUE INDEX feed_by_event_key ON feed (event_key, scope) WHERE event_key IS NOT NULL;

CREATE TABLE job (
    scope         INTEGER PRIMARY KEY,  -- the incarnation
    id            TEXT NOT NULL UNIQUE,
    num_tasks     INTEGER NOT NULL,
    tags          TEXT,                 -- JSON array, if tags were declared
    created_at    INTEGER NOT NULL,
    tombstoned_at INTEGER,
    head          INTEGER NOT NULL,     -- the newest `seq` of its feed
    changed_at    INTEGER NOT NULL
);

-- The epoch of each task's newest manager.
CREATE TABLE job_writer (
    scope INTEGER NOT NULL,
    task  INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (scope, task)
) WITHOUT ROWID;

-- The newest report of every task and tag. A rowid table: reports may be long.
CREATE TABLE job_state (
    scope   INTEGER NOT NULL,
    task    INTEGER NOT NULL,
    tag     TEXT NOT NULL,
    seq     INTEGER NOT NULL,           -- of its last change
    version INTEGER NOT NULL,
    status  INTEGER NOT NULL,
    report  TEXT NOT NULL               -- JSON
);
CREATE UNIQUE INDEX job_state_by_key ON job_state (scope, task, tag);
CREATE INDEX job_state_by_seq ON job_state (scope, seq);

-- Deleted jobs whose states are still to be removed, a few thousand at a time.
CREATE TABLE job_erased (
    scope INTEGER PRIMARY KEY
);
