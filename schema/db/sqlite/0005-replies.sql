-- Finished replies (cache/reply.c): the bytes that answered a posted body, by everything that decides them (daemon/service/replies.c), so that the same
-- body is answered without reading JSON. A reply is good only as long as its entry is there with the checksum that is written down here as `generation`.
-- `sha256` is over key, generation, signature, digest, body and zstd, the last as hexadecimal text. Times are seconds since 1970.

CREATE TABLE reply (
    id         INTEGER PRIMARY KEY,
    key        TEXT NOT NULL UNIQUE,
    entry      INTEGER NOT NULL,
    generation TEXT NOT NULL,
    signature  TEXT NOT NULL,
    digest     TEXT NOT NULL,             -- of the graph that was posted
    body       TEXT NOT NULL,             -- the document, JSON, with the names that were posted
    zstd       BLOB NOT NULL,             -- the same compressed, or empty
    sha256     TEXT NOT NULL,
    used       INTEGER NOT NULL
);
CREATE INDEX reply_used ON reply (used);
CREATE INDEX reply_entry ON reply (entry);

-- whoever removes or replaces an entry, with whatever statement, takes its replies along
CREATE TRIGGER reply_removed AFTER DELETE ON entry BEGIN DELETE FROM reply WHERE entry = OLD.id; END;
CREATE TRIGGER reply_replaced AFTER UPDATE OF sha256 ON entry WHEN NEW.sha256 <> OLD.sha256
BEGIN DELETE FROM reply WHERE entry = OLD.id; END;
