-- What the hosts of a cluster share (cluster/cluster.h). Times are the server's. `space` is the namespace: every statement names it, and policies hold rows of
-- different namespaces apart besides, by the setting dovetail.namespace, which each transaction makes for itself. Sums are over all that a row says (cluster/entries.c), so that
-- a damaged row, or one moved to another key, is a miss. Tokens grow by one with each claim, and begin with the server's clock in microseconds, so that a row that was
-- deleted and made again does not give out a number twice. Limits are those of cluster/cluster.h: what another program writes is held to them as well.

CREATE TABLE dovetail_entry (                -- recipes of plans
    space     text NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 64),
    key       text NOT NULL CHECK (octet_length(key) = 71), -- digest of the four that follow: together they are too long for an index
    signature text NOT NULL CHECK (octet_length(signature) = 71),
    device    text NOT NULL CHECK (octet_length(device) BETWEEN 1 AND 4096),
    toolchain text NOT NULL CHECK (octet_length(toolchain) BETWEEN 1 AND 4096),
    policy    text NOT NULL CHECK (octet_length(policy) BETWEEN 1 AND 4096),
    format    integer NOT NULL,              -- how to read the rest; 1
    digest    text NOT NULL CHECK (octet_length(digest) = 71), -- of the plan's modules and launches
    recipe    text NOT NULL CHECK (octet_length(recipe) BETWEEN 2 AND 4194304), -- JSON
    rewriter  integer NOT NULL CHECK (rewriter BETWEEN 0 AND 1000000),
    evidence  text NOT NULL CHECK (octet_length(evidence) <= 64),
    grade     integer NOT NULL CHECK (grade BETWEEN 0 AND 1), -- of the evidence: 1 measured, 0 all else
    factors   text NOT NULL CHECK (octet_length(factors) <= 4194304), -- what the signature is made of, JSON, or empty
    stamp     bigint NOT NULL,               -- when it was made, seconds since 1970, as its maker says
    signer    text NOT NULL CHECK (octet_length(signer) <= 128), -- or empty
    seal      text NOT NULL CHECK (octet_length(seal) <= 512),   -- the signer's signature, or empty
    checksum  text NOT NULL CHECK (octet_length(checksum) = 71),
    created   timestamptz NOT NULL,
    used      timestamptz NOT NULL,          -- to a day
    PRIMARY KEY (space, key)
);
CREATE INDEX dovetail_entry_signature ON dovetail_entry (space, signature, created);
CREATE INDEX dovetail_entry_used ON dovetail_entry (space, used);

CREATE TABLE dovetail_lease (                -- who makes a plan; a row stays when its lease has ended, for a week
    space     text NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 64),
    key       text NOT NULL CHECK (octet_length(key) = 71),
    token     bigint NOT NULL,
    expires   timestamptz NOT NULL,
    PRIMARY KEY (space, key)
);
CREATE INDEX dovetail_lease_expires ON dovetail_lease (space, expires);

CREATE TABLE dovetail_measure (              -- rows of the performance library
    space     text NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 64),
    kind      text NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 64),
    device    text NOT NULL CHECK (octet_length(device) BETWEEN 1 AND 1024),
    key       text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 128),
    body      text NOT NULL CHECK (octet_length(body) <= 1398104), -- base64
    checksum  text NOT NULL CHECK (octet_length(checksum) = 71),
    created   timestamptz NOT NULL,
    PRIMARY KEY (space, kind, device, key)
);
CREATE INDEX dovetail_measure_created ON dovetail_measure (space, created);

CREATE TABLE dovetail_queue (                -- plans to make again
    space     text NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 64),
    device    text NOT NULL CHECK (octet_length(device) BETWEEN 1 AND 200),
    signature text NOT NULL CHECK (octet_length(signature) = 71),
    rank      bigint NOT NULL,               -- more comes first
    reason    text NOT NULL CHECK (octet_length(reason) <= 200),
    note      text NOT NULL CHECK (octet_length(note) <= 4096), -- JSON, or empty
    state     text NOT NULL CHECK (state IN ('waiting', 'parked')),
    tries     integer NOT NULL,              -- how often it was claimed and not given back
    failure   text NOT NULL CHECK (octet_length(failure) <= 1000), -- why it failed last
    token     bigint NOT NULL,
    due       timestamptz NOT NULL,          -- not before
    expires   timestamptz NOT NULL,          -- of its lease
    PRIMARY KEY (space, device, signature)
);
CREATE INDEX dovetail_queue_tries ON dovetail_queue (space, device, state, tries);
CREATE INDEX dovetail_queue_next ON dovetail_queue (space, device, state, rank DESC, due);

CREATE TABLE dovetail_aside (                -- rows that were found damaged, for people to look at, for a month
    space     text NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 64),
    key       text NOT NULL,
    found     timestamptz NOT NULL,
    reason    text NOT NULL,
    body      text NOT NULL,                 -- its recipe or measurement, the first 64 KiB
    checksum  text NOT NULL,
    PRIMARY KEY (space, key, checksum)
);

ALTER TABLE dovetail_entry ENABLE ROW LEVEL SECURITY;
ALTER TABLE dovetail_entry FORCE ROW LEVEL SECURITY;
CREATE POLICY dovetail_entry_space ON dovetail_entry
    USING (space = current_setting('dovetail.namespace', true)) WITH CHECK (space = current_setting('dovetail.namespace', true));
ALTER TABLE dovetail_lease ENABLE ROW LEVEL SECURITY;
ALTER TABLE dovetail_lease FORCE ROW LEVEL SECURITY;
CREATE POLICY dovetail_lease_space ON dovetail_lease
    USING (space = current_setting('dovetail.namespace', true)) WITH CHECK (space = current_setting('dovetail.namespace', true));
ALTER TABLE dovetail_measure ENABLE ROW LEVEL SECURITY;
ALTER TABLE dovetail_measure FORCE ROW LEVEL SECURITY;
CREATE POLICY dovetail_measure_space ON dovetail_measure
    USING (space = current_setting('dovetail.namespace', true)) WITH CHECK (space = current_setting('dovetail.namespace', true));
ALTER TABLE dovetail_queue ENABLE ROW LEVEL SECURITY;
ALTER TABLE dovetail_queue FORCE ROW LEVEL SECURITY;
CREATE POLICY dovetail_queue_space ON dovetail_queue
    USING (space = current_setting('dovetail.namespace', true)) WITH CHECK (space = current_setting('dovetail.namespace', true));
ALTER TABLE dovetail_aside ENABLE ROW LEVEL SECURITY;
ALTER TABLE dovetail_aside FORCE ROW LEVEL SECURITY;
CREATE POLICY dovetail_aside_space ON dovetail_aside
    USING (space = current_setting('dovetail.namespace', true)) WITH CHECK (space = current_setting('dovetail.namespace', true));
