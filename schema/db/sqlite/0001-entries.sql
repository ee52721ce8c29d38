-- The store of one host (or of one user): documents by signature, graphs by digest.
-- Every body is stored with canonical names. `sha256` is over all that the row says, key included (cache/store.c:row_sum), so that
-- a damaged row, or one moved to another key, is a miss. Times are seconds since 1970.

CREATE TABLE entry (
    id        INTEGER PRIMARY KEY,
    want      TEXT NOT NULL,              -- plan, analysis
    signature TEXT NOT NULL,
    device    TEXT NOT NULL,
    toolchain TEXT NOT NULL,
    policy    TEXT NOT NULL,
    digest    TEXT NOT NULL,              -- of the graph that made it
    body      TEXT NOT NULL,              -- the document, JSON
    factors   TEXT NOT NULL,              -- what the signature is made of, JSON, or empty
    sha256    TEXT NOT NULL,
    created   INTEGER NOT NULL,
    used      INTEGER NOT NULL,
    hits      INTEGER NOT NULL DEFAULT 0,
    UNIQUE (want, signature, device, toolchain, policy)
);
CREATE INDEX entry_newest ON entry (want, signature, created);

CREATE TABLE graph (
    digest  TEXT PRIMARY KEY,
    body    TEXT NOT NULL,                -- the graph document, JSON, as posted
    sha256  TEXT NOT NULL,
    created INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE known (                      -- digest -> signature, per architecture
    digest    TEXT NOT NULL,
    arch      TEXT NOT NULL,
    signature TEXT NOT NULL,
    sha256    TEXT NOT NULL,
    PRIMARY KEY (digest, arch)
) WITHOUT ROWID;

CREATE TABLE counter (
    want TEXT NOT NULL,
    name TEXT NOT NULL,                   -- hits, misses, damaged
    n    INTEGER NOT NULL,
    PRIMARY KEY (want, name)
) WITHOUT ROWID;
