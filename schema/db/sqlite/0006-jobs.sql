-- Jobs of services, so that an id that was given out survives a restart (daemon/service/journal.c says what the JSON texts mean).
-- A service finds its own by `service`. `sha256` is over id, service, post and request_sha256; `state_sha256` over id and state.

CREATE TABLE job (
    id             TEXT PRIMARY KEY,
    service        TEXT NOT NULL,         -- path of its socket
    post           TEXT NOT NULL,         -- what was posted, JSON; does not change
    request        TEXT NOT NULL,         -- what the worker gets, or empty: the job has ended
    request_sha256 TEXT NOT NULL,
    sha256         TEXT NOT NULL,
    state          TEXT NOT NULL,         -- how far it is and whose, JSON
    state_sha256   TEXT NOT NULL,
    changed        INTEGER NOT NULL       -- seconds since 1970
);
CREATE INDEX job_service ON job (service);
