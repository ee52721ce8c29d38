-- The performance library: what rewrites cost in the timing model, by what that depends on (rewrite/library.c), so that another planning which
-- tries them, of this graph or another, need not run them. Columns as in footprint (cache/kept.c).

CREATE TABLE trial (
    key    TEXT PRIMARY KEY,
    body   BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    used   INTEGER NOT NULL
);
CREATE INDEX trial_used ON trial (used);
