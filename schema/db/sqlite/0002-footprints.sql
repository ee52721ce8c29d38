-- Footprints of launches (analysis/memo.c), by what they depend on, so that a kernel that another graph has used at the same geometry is not
-- analysed again. `sha256` is over key and body, the body as hexadecimal text (cache/footprints.c). Times are seconds since 1970.

CREATE TABLE footprint (
    key    TEXT PRIMARY KEY,
    body   BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    used   INTEGER NOT NULL
);
CREATE INDEX footprint_used ON footprint (used);
