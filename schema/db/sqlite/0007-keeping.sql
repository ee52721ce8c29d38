-- What keeping the file needs: rows that were found damaged are set aside here before they are deleted (the newest few, for people to look at; cache/row.c);
-- indexes by which the least recently used rows, and what hangs on them, are found without a walk over the tables (cache/keeper.c). Times are seconds since 1970.

CREATE TABLE aside (
    id    INTEGER PRIMARY KEY,
    tbl   TEXT NOT NULL,                  -- where the row was
    key   TEXT NOT NULL,                  -- its id, digest or key
    body  BLOB,                           -- as it was found
    found INTEGER NOT NULL
);

CREATE INDEX entry_used ON entry (used);
CREATE INDEX known_signature ON known (signature);
