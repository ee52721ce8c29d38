-- Results that the other hosts of a cluster are to have (cache/outbox.c): the recipe of a plan under its key, written in the transaction that writes the entry, and sent by the service
-- when it can be. A row has all that is sent, so that the entry may go before it. `sha256` is over key, digest, body and facts. Times are seconds since 1970.

CREATE TABLE outbox (
    id        INTEGER PRIMARY KEY AUTOINCREMENT, -- no number is used twice: one that is being sent may be replaced meanwhile
    signature TEXT NOT NULL,
    device    TEXT NOT NULL,
    toolchain TEXT NOT NULL,
    policy    TEXT NOT NULL,
    digest    TEXT NOT NULL,              -- of the plan's modules and launches, canonical names
    body      TEXT NOT NULL,              -- the recipe, JSON
    facts     TEXT NOT NULL,              -- rewriter, evidence, figures: JSON
    sha256    TEXT NOT NULL,
    token     INTEGER NOT NULL,           -- of the lease under which it was planned, or 0
    bytes     INTEGER NOT NULL,           -- of body and facts
    created   INTEGER NOT NULL,
    due       INTEGER NOT NULL,           -- not to be sent before
    refusals  INTEGER NOT NULL,           -- how often the cluster will not have it
    state     TEXT NOT NULL,              -- waiting, parked
    reason    TEXT NOT NULL,              -- of the last refusal
    UNIQUE (signature, device, toolchain, policy)
);
CREATE INDEX outbox_due ON outbox (state, due, bytes, created);
