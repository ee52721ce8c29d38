-- What planning again needs (cache/due.c): of each plan the times of the posted launches and of the plan, microseconds, 0: not known; whether it was only carried
-- over from another toolchain, and is still due. They are hints, and no part of `sha256`. And reports of nights, JSON; `sha256` is over service and body.

ALTER TABLE entry ADD COLUMN before_us REAL NOT NULL DEFAULT 0;
ALTER TABLE entry ADD COLUMN after_us REAL NOT NULL DEFAULT 0;
ALTER TABLE entry ADD COLUMN carried INTEGER NOT NULL DEFAULT 0;

CREATE TABLE night (
    id      INTEGER PRIMARY KEY,
    service TEXT NOT NULL,                -- path of its socket
    body    TEXT NOT NULL,
    sha256  TEXT NOT NULL
);
CREATE INDEX night_service ON night (service, id);
